"""Files cut short: at most the last record is lost, and nothing comes out as a traceback."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from sf.app.trust import load_config
from sf.errors import SfError
from sf.observe import trace
from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken, git
from tests.chaos.sweep import FULL, SEED

_FRAME = 24 + 4096
_HEADER = 32
_QUIET = Blow("count", "none")
_KILL = Blow("kill everything", "kill-all")


def test_a_trace_cut_at_any_byte_of_its_last_line_loses_that_line_alone(
    ground: Ground, tmp_path: Path
) -> None:
    assert ground.sf("auto").code == 0
    (whole,) = ground.project.trace.glob("trace-*.jsonl")
    content = whole.read_bytes()
    spans = len(trace.read(whole))
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(content) + 1):
        folder = tmp_path / "trace"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tracer = trace.Tracer(folder)
        tracer.current_file().write_bytes(content[:cut])
        tracer.span("run", trace_id="after", started_at=time.time_ns() // 1_000_000, attrs={})
        tracer.close()
        left = trace.read(tracer.current_file())
        assert len(left) in (spans, spans + 1), f"cut at {cut}"
        assert left[-1]["trace_id"] == "after", f"cut at {cut}"


def test_a_configuration_cut_at_any_byte_is_refused_in_words_or_still_valid(ground: Ground) -> None:
    content = ground.project.config.read_bytes()
    last = content.rindex(b"[tiers.reasoning]")
    refused = []
    for cut in range(0 if FULL else last - 60, len(content)):
        ground.project.config.write_bytes(content[:cut])
        try:
            load_config(ground.project)
        except SfError:
            refused.append(cut)
    assert refused, "no cut at all was noticed"
    sample = range(last, len(content)) if FULL else random.Random(SEED).sample(range(last, len(content)), 3)
    for cut in sample:
        ground.project.config.write_bytes(content[:cut])
        ended = ground.sf("auto")
        assert "Traceback" not in ended.stderr and not (ground.home / "log" / "crash.log").exists()
        # Cut between two tables it is valid, and names models of which nobody has a key here.
        unkeyed = "[secret_unavailable]" in ended.stderr
        assert (ended.code == 2) == (cut in refused or unkeyed), f"cut at {cut}: {ended.code} {ended.stderr}"
        if ended.code == 0:
            ground.reset()
    ground.project.config.write_bytes(content)
    assert ground.sf("auto").code == 0
    assert not broken(ground)


def test_a_write_ahead_log_that_lost_its_last_frame_costs_time_only(tracer: None, ground: Ground) -> None:
    _, clean = ground.traced(_QUIET)
    chance = random.Random(SEED)
    wanted, cut_off = 12 if FULL else 1, 0
    for _ in range(10 * wanted):
        if cut_off == wanted:
            break
        moment = chance.randrange(100, len(clean.boundaries) - 5)
        ground.reset()
        _, report = ground.traced(_KILL, at=moment)
        log = ground.project.database.with_name("sf.db-wal")
        content = log.read_bytes()
        if not report.acted or len(content) < _HEADER + _FRAME:
            continue
        cut_off += 1
        killed = ground.keep("before-the-cut")
        start = _HEADER + (len(content) - _HEADER - 1) // _FRAME * _FRAME
        for cut in (0, 1, 23, 24, 25, *(chance.randrange(_FRAME) for _ in range(20))) if FULL else (0, 2000):
            ground.reset(killed)
            log.write_bytes(content[: start + cut])
            again = ground.sf("auto")
            assert again.code == 0, f"killed at {moment}, cut at {cut}: {again.stdout} {again.stderr}"
            problems = broken(ground)
            assert not problems, f"killed at {moment}, cut at {cut}, seed {SEED}: {problems}"
    assert cut_off == wanted


@pytest.fixture
def landing(tracer: None, ground: Ground) -> Path:
    """The journal of a landing that was killed while it moved files, and before its branch moved."""
    _, clean = ground.traced(_QUIET)
    moving = [
        each.number
        for each in clean.boundaries
        if each.program == "git read-tree" and each.place == "/project/a.txt"
    ]
    assert moving, "the landing wrote no file"
    ground.reset()
    held = ground.root / ".git" / "refs" / "heads" / "main.lock"
    for moment in range(moving[0] - 3, moving[0] + 4):
        # No two runs have quite the same boundaries: the blow may fall a little later than in the clean one.
        ground.traced(_KILL, at=moment)
        found = list(ground.home.rglob("landing.json"))
        if found and b'"moving"' in found[0].read_bytes() and held.exists():
            return found[0]
        ground.reset()
    pytest.fail("no kill met the landing while it moved files")


def test_a_landing_whose_journal_is_cut_holds_up_no_start_and_touches_nothing(
    ground: Ground, landing: Path
) -> None:
    """Nobody knows any more what of the checkout is the landing's: it is left, and holds the merge."""
    content, kept = landing.read_bytes(), ground.keep("cut")
    before = _state(ground.root)
    for cut in range(len(content)) if FULL else (0, 1, len(content) // 2, len(content) - 1):
        ground.reset(kept)
        landing.write_bytes(content[:cut])
        ended = ground.sf("auto")
        assert ended.code == 3, f"cut at {cut}: {ended.code} {ended.stdout} {ended.stderr}"
        assert "Traceback" not in ended.stderr and "left as it is" in ended.stdout, ended.stdout
        assert not (ground.home / "log" / "crash.log").exists()
        assert _state(ground.root) == before, f"cut at {cut}"
        assert not landing.exists() and not list((ground.root / ".git").glob("*.lock"))
    git(ground.root, "checkout", "-q", ".")
    git(ground.root, "clean", "-q", "-f", "-d", "-e", ".sf")
    told = ground.sf("auto").stdout
    assert "main.lock" in told and "remove the file if no git runs" in told
    (ground.root / ".git" / "refs" / "heads" / "main.lock").unlink()
    assert ground.sf("auto").code == 0
    assert not broken(ground)


def _state(root: Path) -> dict[str, bytes]:
    """The user's files and refs."""
    places = [*root.glob("*.txt"), *root.glob("sub/*"), *(root / ".git" / "refs").rglob("*")]
    places += [root / ".git" / name for name in ("HEAD", "index")]
    return {str(path): path.read_bytes() for path in places if path.is_file()}
