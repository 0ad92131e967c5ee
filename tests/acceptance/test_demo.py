"""`sf demo` as a newcomer runs it: an empty home, a new folder, no key, no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from sf.providers.playbooks import parse
from sf.store import knowledge, records, runs, units
from sf.store.connection import open_reader
from tests.support.stage import CONFIG, Stage, run_sf


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo, run once: its folder and what it printed."""
    place = tmp_path_factory.mktemp("newcomer")
    arguments = ("demo", "--folder", str(place / "demo"))
    done = run_sf(place, place / "home" / ".sf", *arguments, timeout=60, wrapper=_without_network())
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "demo", done.stdout


def _without_network() -> tuple[str, ...]:
    """A wrapper that takes the network away, where this machine lets us."""
    wrapper = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
    possible = subprocess.run([*wrapper, "true"], capture_output=True).returncode == 0
    return wrapper if possible else ()


@pytest.mark.conforms("C-41", "C-42")
def test_the_merged_commits_are_there_and_its_own_tests_pass(demo: tuple[Path, str]) -> None:
    root, _ = demo
    log = subprocess.run(
        ["git", "log", "--first-parent", "--format=%s"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(log) == 4
    assert log[0] == "Merge slice/m1/s3: Command line", "what depends on the others is merged last"
    tests = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    ran = subprocess.run(tests, cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0
    assert "Ran 14 tests" in ran.stderr
    slug = subprocess.run(
        [sys.executable, "-m", "textkit", "slug", "Hello, World"], cwd=root, capture_output=True, text=True
    )
    assert slug.stdout == "hello-world\n"


def test_slices_overlap_a_gate_fails_first_and_a_review_gets_its_change(demo: tuple[Path, str]) -> None:
    root, _ = demo
    tx = open_reader(root / ".sf" / "sf.db")
    first, second = (
        [run for task in (1, 2) for run in runs.of_unit(tx, f"task/m1/s{number}/t{task}")]
        for number in (1, 2)
    )
    overlap = [
        (a.id, b.id)
        for a in first
        for b in second
        if a.started_at < (b.ended_at or 0) and b.started_at < (a.ended_at or 0)
    ]
    assert overlap
    gates = [row["passed"] for row in records.gate_results(tx, "task/m1/s1/t2")]
    assert gates == [0, 1]
    reviews = [row["summary"] for row in records.evidence(tx, "slice/m1/s2") if row["kind"] == "review"]
    assert [summary.split(":")[0] for summary in reviews] == ["request_changes", "pass"]
    found = units.listed(tx, archived=True)
    assert sum(unit.type == "task" for unit in found) == 5
    assert all(unit.verdict == "success" for unit in found)


def test_what_a_person_sees(demo: tuple[Path, str]) -> None:
    root, out = demo
    assert str(root) in out
    assert "\x1b[" not in out, "plain lines where there is no terminal"
    assert re.search(r"gate run-tests failed", out)
    assert re.search(r"→ execute +review wants changes", out)
    assert re.search(r"slice/m1/s2 +Slugs +success +gates \d✓ review 1✓ 1✗ +[0-9a-f]{10}", out)
    assert "The model was scripted" in out
    assert "ANTHROPIC_API_KEY" in out


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = run_sf(tmp_path, tmp_path / "home" / ".sf", "demo", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_what_put_a_mistake_right_is_known_by_what_was_said_of_the_mend(demo: tuple[Path, str]) -> None:
    root, _ = demo
    (mistake,) = knowledge.mistakes_of(open_reader(root / ".sf" / "sf.db"), "task/m1/s1/t2")
    assert "test_ties_are_alphabetical" in mistake.description or "pear" in mistake.description
    assert mistake.correct_path == "Ties are sorted now."


def test_no_edit_of_the_script_fits_twice() -> None:
    """A run that was killed after its edit plays the scene again on the edited file."""
    text = (resources.files("sf.app.demo") / "playbook.toml").read_text()
    calls = [call for scene in parse(text, "demo").scenes for turn in scene.turns for call in turn.calls]
    edits = [call.arguments for call in calls if call.tool == "edit_file"]
    assert len(edits) >= 5
    for edit in edits:
        assert edit["old"] not in edit["new"]


def test_the_whole_playbook_of_the_documentation_takes_a_goal_to_a_merge(stage: Stage) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scripted-model.md").read_text(encoding="utf-8")
    [text] = re.findall(r'```toml\n(name = "whole".*?)```', page, re.DOTALL)
    (stage.project.dot / "playbooks").mkdir()
    (stage.project.dot / "playbooks" / "whole.toml").write_text(text, encoding="utf-8")
    stage.configure(CONFIG.replace("script:test", "script:whole"))
    stage.plan("Greet")
    assert stage.auto().ending == "done"
    assert stage.git("show", "main:hello.txt") == "hello"
