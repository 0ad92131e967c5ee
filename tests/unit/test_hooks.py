"""The operator's hooks, as real processes."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sf.config.durations import Seconds
from sf.config.schema import Hooks
from sf.errors import HookFailed, HookTimeout, HookUntold
from sf.harness.hooks import DEFAULT_TIMEOUTS, HookRunner, HookType, script_path
from sf.observe import trace
from sf.observe.log import Log
from sf.observe.trace import Tracer
from sf.policy import orphans


class Bench:
    """A project folder in which hooks are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tracer = Tracer(root / "trace")
        self.log_file = root / "sf.log"

    def script(self, name: str, text: str) -> str:
        path = self.root / ".sf" / "hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return f".sf/hooks/{name}"

    async def run(self, kind: Any, hooks: Hooks) -> None:
        runner = HookRunner(self.root, {"PATH": "/usr/bin:/bin"}, Log(self.log_file), self.tracer, hooks)
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        await runner.run(
            kind, {"unit_id": "task/a1"}, cwd=elsewhere, trace_id="t", variables={"SF_UNIT_ID": "task/a1"}
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.tracer.close()


async def test_a_hook_gets_its_payload_variables_and_folder(bench: Bench) -> None:
    name = bench.script("note.sh", f'cat > {bench.root}/got; echo "$SF_UNIT_ID $(pwd)" > {bench.root}/seen')
    await bench.run("before_run", Hooks(before_run=name))
    assert json.loads((bench.root / "got").read_text()) == {"unit_id": "task/a1"}
    assert (bench.root / "seen").read_text().split() == ["task/a1", str(bench.root / "elsewhere")]
    assert "hook completed" in bench.log_file.read_text()


async def test_hooks_of_a_kind_run_in_order_and_stop_at_the_first_failure(bench: Bench) -> None:
    marks = [
        bench.script(f"{n}.sh", f"echo {n} >> {bench.root}/order; exit {code}")
        for n, code in ((1, 0), (2, 3), (3, 0))
    ]
    with pytest.raises(HookFailed, match="exited with 3") as failed:
        await bench.run("post_unit", Hooks(post_unit=tuple(marks)))
    assert failed.value.code == "hook_failed"
    assert (bench.root / "order").read_text().split() == ["1", "2"]
    file = bench.tracer.current_file()
    bench.tracer.close()
    spans = trace.read(file)
    assert [span.get("error", "") for span in spans] == ["", "hook_failed"]
    bench.tracer = Tracer(bench.root / "trace")


async def test_a_hook_that_takes_too_long_is_killed(bench: Bench) -> None:
    name = bench.script("slow.sh", "sleep 30")
    with pytest.raises(HookTimeout) as failed:
        await bench.run("before_run", Hooks(before_run=name, timeouts={"before_run": Seconds(0.2)}))
    assert failed.value.code == "hook_timeout"


async def test_what_left_the_group_of_a_hook_that_is_called_off_ends_with_it(bench: Bench) -> None:
    beat = bench.root / "beat"
    child = f"sh -c 'while :; do echo x >> {beat}; sleep 0.05; done'"
    name = bench.script("away.sh", f"setsid {child} >/dev/null 2>&1 </dev/null &\nsleep 30")
    running = asyncio.ensure_future(bench.run("before_run", Hooks(before_run=name)))
    for _ in range(500):
        if not beat.exists():
            await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    size = beat.stat().st_size
    await asyncio.sleep(0.3)
    assert beat.stat().st_size == size, "a writer in a worktree would meet the next run there"


async def test_what_a_hook_prints_is_cut_in_the_log(bench: Bench) -> None:
    name = bench.script("loud.sh", "head -c 50000 /dev/zero | tr '\\0' x")
    await bench.run("before_run", Hooks(before_run=name))
    assert len(bench.log_file.read_text()) < 4000
    assert "(truncated)" in bench.log_file.read_text()


async def test_a_hook_that_does_not_exist_is_a_failed_hook(bench: Bench) -> None:
    with pytest.raises(HookFailed):
        await bench.run("before_run", Hooks(before_run=".sf/hooks/none.sh"))
    with pytest.raises(HookFailed):
        await bench.run("before_run", Hooks(before_run="no-such-command-at-all"))
    with pytest.raises(HookFailed):
        await bench.run("before_run", Hooks(before_run="echo 'unclosed"))


async def test_a_hook_that_the_machine_cannot_start_has_heard_nothing(bench: Bench) -> None:
    """At the end of a unit it counted as told, and was never told again."""
    name = bench.script("note.sh", f"touch {bench.root}/told")
    await bench.run("post_unit", Hooks())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(HookUntold, match="Too many open files"):
            await bench.run("post_unit", Hooks(post_unit=(name,)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not (bench.root / "told").exists()
    with pytest.raises(HookFailed) as missing:
        await bench.run("post_unit", Hooks(post_unit=(".sf/hooks/none.sh",)))
    assert not isinstance(missing.value, HookUntold)


def test_each_kind_has_a_time_limit_of_its_own() -> None:
    kinds = set(Hooks.__struct_fields__) - {"timeouts"}
    assert set(DEFAULT_TIMEOUTS) == kinds
    assert DEFAULT_TIMEOUTS["before_run"] != DEFAULT_TIMEOUTS["after_run"]


@pytest.mark.conforms("C-60")
@pytest.mark.parametrize("kind", DEFAULT_TIMEOUTS)
async def test_the_time_limit_of_one_kind_binds_no_other(bench: Bench, kind: HookType) -> None:
    name = bench.script("slow.sh", "sleep 0.6")
    given: Any = (name,) if kind in ("pre_dispatch", "post_unit") else name
    others = {other: Seconds(0.1) for other in DEFAULT_TIMEOUTS if other != kind}
    await bench.run(kind, Hooks(**{kind: given}, timeouts=others))
    with pytest.raises(HookTimeout, match=kind):
        await bench.run(kind, Hooks(**{kind: given}, timeouts={kind: Seconds(0.1)}))


def test_a_script_of_sfs_own_folder_is_never_shadowed_by_one_in_the_project(tmp_path: Path) -> None:
    own, other = tmp_path / ".sf" / "gates" / "x.sh", tmp_path / "gates" / "x.sh"
    assert script_path(tmp_path, "gates/x.sh") == other
    for path in (other, own):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert script_path(tmp_path, "gates/x.sh") == own
    assert script_path(tmp_path, "./.sf/gates/x.sh") == own
    assert script_path(tmp_path, "/bin/true") == Path("/bin/true")


def test_the_note_of_a_hook_goes_with_it_unless_something_of_it_is_left(tmp_path: Path) -> None:
    with orphans.noted(tmp_path) as ended:
        assert [str(path) for path in orphans.left_noted(tmp_path)] == [ended.hook_id]
    with orphans.noted(tmp_path) as left:
        left.stays = True
    assert [str(path) for path in orphans.left_noted(tmp_path)] == [left.hook_id], "for the next start"
