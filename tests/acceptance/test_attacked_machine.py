"""Attacks by way of the machine that once succeeded: orphans, locks, names, damage, settings."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from sf.domain import events
from sf.domain.events import Event
from sf.domain.units import HoldKind
from sf.errors import SandboxUnavailable
from sf.policy import orphans
from sf.policy.sandbox import choose
from sf.store import records, runs
from tests.acceptance.test_attacked import ADHOC_PLAN, ASKS, ONE, SLICE, landed, once
from tests.support.stage import CONFIG, PASSING, Stage, call, plan_scene, run_sf, say, scene, task, write

LATIN = os.fsdecode(b"caf\xe9.txt")


def _has_landlock() -> bool:
    try:
        choose("workspace", prefer="landlock")
    except SandboxUnavailable:
        return False
    return True


needs_landlock = pytest.mark.skipif(not _has_landlock(), reason="Landlock does not work here")
LANDLOCK = CONFIG + '\n[sandbox]\nprefer = "landlock"\n'


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _pid_in(stage: Stage, pattern: str) -> int:
    """The number that a process wrote into a file in some worktree."""
    deadline = time.monotonic() + 30
    while True:
        for path in stage.project.worktrees.glob(pattern):
            text = path.read_text().strip()
            if text:
                return int(text)
        assert time.monotonic() < deadline, "the moment did not come"
        time.sleep(0.02)


def _orphan(stage: Stage) -> int:
    """Start the autopilot, kill it alone once what it started has told its pid; that pid."""
    live = subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env={**os.environ, "SF_HOME": str(stage.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return _pid_in(stage, "*/pid.txt")
    finally:
        live.kill()
        live.wait()


@pytest.mark.parametrize("kind", ["hook", pytest.param("command", marks=needs_landlock)])
def test_a_restart_ends_what_a_killed_sf_left_running_before_anything_else_runs(
    stage: Stage, kind: str
) -> None:
    lingering = "echo $$ > pid.txt; sleep 60; echo late >> a.txt"
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt"), say()), *PASSING)
    if kind == "hook":
        stage.hook("slow", f"#!/bin/sh\n{lingering}\n")
        stage.configure(CONFIG + '\n[harness.hooks]\nbefore_run = "./.sf/hooks/slow.sh"\n')
    else:
        stage.configure(LANDLOCK)
        stage.script(
            ADHOC_PLAN, scene("execute", call("bash", command=f"sh -c '{lingering}'; true")), *PASSING
        )
    stage.plan(adhoc=True)
    pid = _orphan(stage)
    alive: list[bool] = [_is_alive(pid)]
    stage.hook("slow", "#!/bin/sh\nrm -f pid.txt\n")
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt"), say()), *PASSING)

    def look(event: Event) -> None:
        if event.name == events.RUN_STARTED:
            alive.append(_is_alive(pid))

    try:
        stage.auto(watch=look)
    finally:
        if _is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    assert alive[:1] == [True], "it did not outlive sf, so nothing is shown"
    assert len(alive) > 1 and not any(alive[1:])


def test_a_profile_tightened_while_sf_runs_holds_for_the_next_command(stage: Stage) -> None:
    escaped = stage.root.parent / "escaped"
    stage.configure(CONFIG + '\n[sandbox]\nprofile = "off"\n')
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say()),
        scene("tdd", call("bash", command=f"mkdir tests; echo t > tests/t; echo x > {escaped}"), say()),
        *PASSING,
        latency_ms=150,
    )
    stage.plan()

    def tighten(event: Event) -> None:
        moved = event.name == events.PHASE_CHANGE and event.data["to"] == "execute"
        if moved and event.data["type"] == "task":
            stage.configure(CONFIG + '\n[sandbox]\nprofile = "workspace-no-network"\n')

    assert stage.auto(watch=tighten).ending == "done"
    assert stage.named(events.CONFIG_RELOADED)
    assert not escaped.exists()


def test_git_in_a_held_units_worktree_runs_nothing_of_the_agents(stage: Stage) -> None:
    mark = stage.root.parent / "mark"
    poison = f"""
import os
with open("evil.sh", "w") as file:
    file.write("#!/bin/sh\\ntouch {mark}\\n")
os.chmod("evil.sh", 0o755)
os.makedirs(".git/hooks", exist_ok=True)
os.symlink("../../evil.sh", ".git/hooks/post-checkout")
with open(".git/config", "a") as file:
    file.write("[core]\\n fsmonitor = ./evil.sh\\n hooksPath = .git/hooks\\n")
    file.write("[filter \\"x\\"]\\n clean = ./evil.sh\\n")
with open(".git/info/attributes", "w") as file:
    file.write("* filter=x\\n")
"""
    stage.script(
        ADHOC_PLAN,
        scene(
            "execute",
            write("setup.py", poison),
            call("bash", command="mkdir -p .git/info; python3 setup.py && rm setup.py; echo x > a.txt"),
            say("Which one?\n<turn_status>blocked</turn_status>"),
        ),
        *PASSING,
    )
    unit = stage.plan(adhoc=True)
    assert stage.auto().ending == "waiting"
    workspace = (stage.project.active(unit) / "workspace").resolve()
    assert (workspace / "evil.sh").exists() and not (workspace / "setup.py").exists()
    for command in (["status", "--short"], ["add", "-A"], ["diff", "HEAD"], ["checkout", "-q", "-b", "x"]):
        subprocess.run(["git", *command], cwd=workspace, check=True, capture_output=True)
    assert not mark.exists()


def test_the_lock_of_a_machine_that_was_renamed_stops_nobody(stage: Stage) -> None:
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(adhoc=True)
    before = {"host": "old-name", "pid": 7, "started": "1", "boot": "x", "purpose": "autopilot"}
    stage.project.lock.write_bytes(msgspec.json.encode(before))
    done = stage.sf("auto")
    assert done.returncode == 0, done.stderr
    assert (stage.root / "a.txt").exists()


@pytest.mark.parametrize("damage", ["garbage", "cut", "folder", "emptied"])
def test_a_damaged_database_is_told_in_one_line(stage: Stage, damage: str) -> None:
    stage.plan()
    database = stage.project.database
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = {"garbage": b"garbage" * 1000, "cut": database.read_bytes()[:5000], "emptied": b""}
    database.unlink()
    if damage == "folder":
        database.mkdir()
    else:
        database.write_bytes(content[damage])
    for command in (["status"], ["auto"]):
        done = stage.sf(*command)
        assert (done.returncode, "[store_unusable]" in done.stderr) == (1, True), (command, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stdout
    assert stage.sf("doctor").returncode == 1


def test_a_limit_of_nought_is_no_limit(stage: Stage) -> None:
    names = ("turn_timeout", "stall_timeout", "tool_timeout", "unit_timeout")
    limits = "".join(f'{name} = "0"\n' for name in names)
    stage.configure(CONFIG.replace("[harness]\n", f"[harness]\n{limits}", 1))
    stage.script(
        ADHOC_PLAN,
        scene("execute", call("bash", command="sleep 0.1; echo x > a.txt"), say()),
        ASKS,
        *PASSING,
        latency_ms=30,
    )
    stage.plan(adhoc=True)
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").exists()


def test_a_changed_file_whose_name_is_not_utf_8_holds_the_landing_and_is_told(stage: Stage) -> None:
    stage.file(LATIN, "one\n")
    stage.commit("a Latin-1 name")
    told = stage.root.parent / "told"
    stage.hook("tell", f"#!/bin/sh\ncat > {told}\n")
    stage.configure(CONFIG + '\n[harness.hooks]\non_event.held = ["./.sf/hooks/tell.sh"]\n')
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt"), say()), *PASSING)
    unit = stage.plan(adhoc=True)
    stage.file(LATIN, "changed\n")
    done = stage.sf("auto")
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        LATIN.encode("utf-8", "backslashreplace").decode()
        in msgspec.json.decode(told.read_bytes())["data"]["detail"]
    )
    assert "Held" in (stage.project.dot / "log" / "sf.log").read_text()
    assert stage.unit(unit).hold_kind is HoldKind.CHECKOUT_DIRTY
    assert "caf\\xe9.txt" in stage.unit(unit).hold_detail or "caf\\udce9.txt" in stage.unit(unit).hold_detail
    assert stage.sf("status").returncode == 0
    stage.git("checkout", "-q", ".")
    assert stage.sf("auto").returncode == 0


def test_names_that_are_not_utf_8_are_judged_like_any_other(stage: Stage) -> None:
    slices = {"title": "S", "tasks": [task("T", allowed_areas=["src/"])]}
    make = "mkdir -p src; echo 1 > src/a.txt; echo 2 > $'src/caf\\xe9'; echo 3 > $'out\\xe9'"
    stage.script(
        plan_scene(slices),
        scene("execute", call("bash", command=make), say(), visits=[1]),
        scene("execute", call("bash", command="echo again >> src/a.txt"), say()),
        scene("tdd", write("src/tests/test_a.txt"), say()),
        ASKS,
        *PASSING,
    )
    stage.plan()
    done = stage.sf("auto")
    assert done.returncode == 0, done.stdout + done.stderr
    ended = [(run.phase.value, run.error_code) for run in runs.of_unit(stage.read, "task/m1/s1/t1")]
    assert ended[:2] == [("execute", "outside_areas"), ("execute", None)], (
        "the agent was told what was taken back"
    )
    landed = stage.git("-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", "main").splitlines()
    assert '"src/caf\\351"' in landed and not any(name.startswith('"out') for name in landed)


@pytest.mark.parametrize("content", ["a line", "\0binary"])
def test_a_conflict_in_a_file_whose_name_is_not_utf_8_is_told_and_resolved(
    stage: Stage, content: str
) -> None:
    stage.file(LATIN, "one\n")
    stage.commit("a Latin-1 name")
    put, clear = (
        f"printf '{content.replace(chr(0), chr(92) + '000')}\\n' > $'caf\\xe9.txt'",
        "rm -rf sf-conflicts",
    )
    stage.script(
        ADHOC_PLAN,
        scene("execute", call("bash", command=put), say(), visits=[1]),
        scene("execute", call("bash", command=f"{put}; {clear}"), say()),
        ASKS,
        *PASSING,
    )
    unit = stage.plan(adhoc=True)
    assert stage.auto(watch=stage.meanwhile("review", LATIN, f"{content} of the user's\n")).ending == "done"
    codes = [run.error_code for run in runs.of_unit(stage.read, unit) if run.error_code]
    assert codes == ["merge_conflict"]


@pytest.mark.parametrize("name", ["", "../../etc", "\x1b[31mred", "milestone/m1\n", "\udcff", "a" * 90_000])
def test_a_name_of_nothing_is_bad_usage_and_harmless_to_the_terminal(stage: Stage, name: str) -> None:
    for command in (["why"], ["abandon", "--reason", name]):
        done = stage.sf(*command, name)
        said = done.stdout + done.stderr
        assert done.returncode == 2, (command, said)
        assert "[internal]" not in said and "Traceback" not in said and "\x1b" not in said


@pytest.mark.parametrize("name", ["\x1b[31mred", "\udcff"])
def test_a_folder_with_an_odd_name_is_told_harmlessly(stage: Stage, name: str) -> None:
    folder = stage.root.parent / name
    folder.mkdir()
    done = run_sf(folder, stage.home, "status")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"## \n",
        b"## caf\xe9\n",
        "## One\n- priority: \u00b2\n".encode(),
        "## One\n- issue: \u0664\n".encode(),
        b"## One\n- issue: " + b"9" * 5000,
    ],
)
def test_a_plan_file_that_cannot_be_read_is_bad_usage(stage: Stage, content: bytes) -> None:
    (stage.project.dot / "plan.md").write_bytes(content)
    done = stage.sf("plan", "reload")
    assert (done.returncode, "[bad_usage]" in done.stderr) == (2, True), done.stderr


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        open("daemon.pid", "w").write(str(os.getpid()))
        for number in range(400):
            time.sleep(0.05)
            open("late.txt", "w").write(f"never reviewed {number}")
    os._exit(0)
while not os.path.exists("daemon.pid"):
    time.sleep(0.01)
"""


@needs_landlock
@pytest.mark.parametrize("unmarked", [False, True])
def test_a_process_that_outlives_its_run_changes_nothing_that_lands(stage: Stage, unmarked: bool) -> None:
    """`unmarked`: it has thrown its environment away, so that sf cannot find it."""
    stage.configure(LANDLOCK)
    start = f"{'env -i ' if unmarked else ''}{sys.executable} d.py; rm d.py; echo x > a.txt"
    stage.script(
        plan_scene(ONE),
        scene("execute", write("d.py", DAEMON), call("bash", command=start), say()),
        *PASSING,
        latency_ms=60,
    )
    stage.plan()
    left: list[int] = []

    def look() -> None:
        found = runs.of_unit(stage.read, "task/m1/s1/t1")
        left.extend(orphans.marked(orphans.run_mark(run.id) for run in found))

    try:
        stage.auto(watch=once("tdd", "task", look))
        assert left == []
    finally:
        for path in stage.root.parent.rglob("daemon.pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                continue
    found = records.evidence(stage.read, SLICE)
    trees = {kind: row["tree"] for row in found for kind in [row["kind"]] if kind in ("review", "merge")}
    assert trees.get("review") == trees.get("merge")
    assert unmarked or "a.txt" in landed(stage)


@needs_landlock
def test_what_an_agent_leaves_in_shared_memory_proves_nothing(stage: Stage) -> None:
    shared = Path("/dev/shm") / f"sf-{os.getpid()}-{stage.root.stat().st_ino}"
    stage.configure(LANDLOCK)
    stage.gate("check", f"#!/bin/sh\n[ -f {shared} ] || {{ echo missing; exit 1; }}\n")
    command = f"touch {shared}; echo x > a.txt"
    stage.script(plan_scene(ONE), scene("execute", call("bash", command=command), say()), ASKS, *PASSING)
    stage.plan()
    try:
        stage.auto()
        assert not shared.exists()
    finally:
        shared.unlink(missing_ok=True)
    assert "a.txt" not in landed(stage)


def test_a_page_of_the_database_that_is_damaged_is_told_by_every_command(stage: Stage) -> None:
    stage.plan(adhoc=True)
    with sqlite3.connect(stage.project.database) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = raw.execute("PRAGMA page_size").fetchone()
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'units'").fetchone()
    raw.close()
    with stage.project.database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    for command in (["status"], ["why", "task/a1"], ["auto"], ["doctor"], ["abandon", "task/a1", "no"]):
        done = stage.sf(*command)
        told = done.stdout + done.stderr
        assert done.returncode == 1 or "it is written down" in told, (command, told)
        assert "malformed" in told and "[internal]" not in told, (command, told)
        assert "the file is damaged" in told or command == ["doctor"], told


@needs_landlock
def test_what_a_hook_left_running_on_purpose_outlives_the_run_under_any_wall(stage: Stage) -> None:
    pid_file = stage.root.parent / "server.pid"
    stage.hook(
        "serve", f"#!/bin/sh\nsetsid sleep 60 >/dev/null 2>&1 </dev/null &\necho $! > {pid_file}; sleep 0.5\n"
    )
    stage.configure(LANDLOCK + '[harness.hooks]\nafter_create = "./.sf/hooks/serve.sh"\n')
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(adhoc=True)
    assert stage.auto().ending == "done"
    server = int(pid_file.read_text())
    assert _is_alive(server)
    os.kill(server, signal.SIGKILL)
