from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from sf.errors import SandboxUnavailable, WorkspaceFailed
from sf.policy.sandbox import Completed, Profile, Sandbox, choose, clean_env, describe

Kind = Literal["bubblewrap", "landlock"]


def _available(kind: Kind) -> bool:
    try:
        choose("read-only", prefer=kind)
    except SandboxUnavailable:
        return False
    return True


KINDS: list[Kind] = [kind for kind in ("bubblewrap", "landlock") if _available(kind)]
needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in KINDS, reason="bubblewrap does not work here")
ENV = clean_env({"PATH": os.environ.get("PATH", "")}, {})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return "bubblewrap" if request.param == "bubblewrap" else "landlock"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "projects" / "ws"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def home(workspace: Path) -> Path:
    """A home with a secret, above the workspace."""
    folder = workspace.parent.parent
    (folder / "secret").write_text("the key")
    return folder


async def run(held: Sandbox, command: str | list[str], workspace: Path, **env: str) -> Completed:
    return await held.run(command, workspace=workspace, env={**ENV, **env}, timeout=30)


def test_a_machine_with_no_sandbox_is_told_what_to_do() -> None:
    if KINDS:
        assert choose("workspace").kind == KINDS[0]
    else:
        with pytest.raises(SandboxUnavailable, match="needs a sandbox"):
            choose("workspace")


async def test_the_workspace_and_tmp_are_writable_and_nothing_else(
    kind: Kind, workspace: Path, home: Path
) -> None:
    other = home / "other"
    other.mkdir()
    held = choose("workspace", prefer=kind, home=home)
    script = (
        f"echo a > in; echo b > $TMPDIR/x; echo c > $HOME/y; cat in $TMPDIR/x $HOME/y; echo d > {other}/z"
    )
    done = await run(held, f"{script}; echo e > /usr/sf-test; echo f > /etc/sf-test", workspace)
    assert done.output.startswith("a\nb\nc\n")
    assert (workspace / "in").read_text() == "a\n"
    assert list(other.iterdir()) == []
    assert not Path("/usr/sf-test").exists()
    assert not Path("/etc/sf-test").exists()


async def test_read_only_leaves_the_workspace_as_it_is(kind: Kind, workspace: Path) -> None:
    (workspace / "kept").write_text("kept")
    held = choose("read-only", prefer=kind)
    done = await run(held, "cat kept; echo x > new; rm kept; echo x > kept; echo t > $TMPDIR/t", workspace)
    assert done.exit_code == 0
    assert [path.name for path in workspace.iterdir()] == ["kept"]
    assert (workspace / "kept").read_text() == "kept"


async def test_the_home_is_hidden_and_readable_paths_come_back(
    kind: Kind, workspace: Path, home: Path
) -> None:
    docs = home / "docs"
    docs.mkdir()
    (docs / "page").write_text("a page")
    held = choose("workspace", prefer=kind, home=home)
    done = await run(held, f"cat {home}/secret {docs}/page", workspace)
    assert "the key" not in done.output
    assert "a page" not in done.output
    done = await held.run(
        f"cat {home}/secret; cat {docs}/page; echo x > {docs}/page",
        workspace=workspace, readable=[docs], env=ENV, timeout=30,
    )  # fmt: skip
    assert "the key" not in done.output
    assert "a page" in done.output
    assert (docs / "page").read_text() == "a page"


async def test_writable_paths_are_writable(kind: Kind, workspace: Path, home: Path) -> None:
    cache = home / "cache"
    cache.mkdir()
    held = choose("workspace", prefer=kind, home=home)
    await held.run(f"echo x > {cache}/x", workspace=workspace, writable=[cache], env=ENV, timeout=30)
    assert (cache / "x").read_text() == "x\n"


async def test_a_python_below_the_home_works(kind: Kind, workspace: Path, home: Path) -> None:
    """As pyenv has it: a wrapper in shims that runs a program in versions."""
    root = home / ".pyenv"
    program = root / "versions" / "3" / "bin" / "tool"
    for folder in (program.parent, root / "shims"):
        folder.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho tool ran\n")
    shim = root / "shims" / "tool"
    shim.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    (root / "credentials").write_text("the key")
    program.chmod(0o755)
    shim.chmod(0o755)
    held = choose("workspace", prefer=kind, home=home)
    path = f"{root}/shims:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = await run(held, f"tool; cat {root}/credentials", workspace, PATH=path)
    assert "tool ran" in done.output
    assert "the key" not in done.output
    done = await run(held, [sys.executable, "-c", "import json, ssl; print('py')"], workspace, PATH=path)
    assert done.output == "py\n"


async def test_a_toolchain_inside_the_workspace_stays_writable(
    kind: Kind, workspace: Path, home: Path
) -> None:
    (workspace / ".venv" / "bin").mkdir(parents=True)
    held = choose("workspace", prefer=kind, home=home)
    path = f"{workspace}/.venv/bin:/usr/bin:/bin"
    assert (await run(held, "echo x > .venv/bin/new", workspace, PATH=path)).exit_code == 0


@pytest.fixture
def server() -> Iterator[int]:
    """A TCP server of the host that answers every connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"hello")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@pytest.mark.parametrize(
    ("profile", "reached"), [("workspace", True), ("workspace-no-network", False), ("read-only", False)]
)
async def test_the_network_is_as_the_profile_says(
    kind: Kind, profile: Profile, reached: bool, workspace: Path, server: int
) -> None:
    held = choose(profile, prefer=kind)
    connects = f"import socket; print(socket.create_connection(('127.0.0.1', {server}), 5).recv(9).decode())"
    done = await run(held, [sys.executable, "-c", connects], workspace)
    assert ("hello" in done.output) is reached


async def test_processes_of_the_host_cannot_be_signaled_or_read(kind: Kind, workspace: Path) -> None:
    held = choose("workspace", prefer=kind)
    done = await run(
        held, f"kill -0 {os.getpid()} && echo signaled; cat /proc/{os.getpid()}/environ", workspace
    )
    assert "signaled" not in done.output
    assert "PATH=" not in done.output


@needs_bubblewrap
async def test_sockets_of_the_host_are_out_of_reach(workspace: Path) -> None:
    held = choose("workspace", prefer="bubblewrap")
    connects = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    # Absolute and short, as a socket's name must be; the second is in a folder that is not hidden.
    with tempfile.TemporaryDirectory() as hidden, tempfile.TemporaryDirectory(dir="/var/tmp") as seen:
        for folder in (hidden, seen):
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(f"{folder}/s")
                server.listen()
                done = await run(held, [sys.executable, "-c", connects, f"{folder}/s"], workspace)
                assert done.exit_code == 1
                done = await run(choose("off"), [sys.executable, "-c", connects, f"{folder}/s"], workspace)
                assert done.exit_code == 0


@needs_bubblewrap
async def test_sockets_that_come_and_go_do_not_keep_a_command_from_running(workspace: Path) -> None:
    held, ended = choose("workspace", prefer="bubblewrap"), threading.Event()

    def flicker() -> None:
        while not ended.is_set():
            with (
                tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
                socket.socket(socket.AF_UNIX) as server,
            ):
                server.bind(f"{folder}/s")

    restless = threading.Thread(target=flicker)
    restless.start()
    try:
        for _ in range(40):
            assert (await run(held, "echo ran", workspace)).output == "ran\n"
    finally:
        ended.set()
        restless.join()


@needs_bubblewrap
async def test_hidden_state_inside_the_workspace_is_hidden(workspace: Path) -> None:
    state = workspace / ".sf"
    state.mkdir()
    (state / "sf.db").write_text("rows")
    held = choose("workspace", prefer="bubblewrap", hidden=[state])
    done = await run(held, "ls -A .sf; echo x > .sf/new", workspace)
    assert "sf.db" not in done.output
    assert [path.name for path in state.iterdir()] == ["sf.db"]


@needs_bubblewrap
async def test_nothing_escapes_bubblewrap_by_a_new_session(workspace: Path) -> None:
    held = choose("workspace", prefer="bubblewrap")
    started = "import os, subprocess; subprocess.Popen(['sleep', '61.5'], start_new_session=True)"
    await run(held, [sys.executable, "-c", started], workspace)
    assert b"sleep\x0061.5\x00" not in _command_lines()


def _command_lines() -> list[bytes]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes())
    return lines


async def test_exit_code_stdin_and_words_pass_through(kind: Kind, workspace: Path) -> None:
    held = choose("workspace", prefer=kind)
    assert (await run(held, "exit 7", workspace)).exit_code == 7
    assert (await run(held, "no-such-program", workspace)).exit_code == 127
    assert (await run(held, ["no-such-program"], workspace)).exit_code == 127
    assert (await run(held, ["printf", "%s|", "a b", "$HOME"], workspace)).output == "a b|$HOME|"
    done = await held.run(
        "cat; pwd", workspace=workspace, env=ENV, timeout=30, stdin=b"in\n", cwd=workspace.parent
    )
    assert done.output == f"in\n{workspace.parent}\n"


async def test_limits_hold(kind: Kind, workspace: Path) -> None:
    done = await run(choose("workspace", prefer=kind), "ulimit -c; ulimit -f", workspace)
    core, size = done.output.split()
    assert core == "0"
    assert int(size) <= 8 * 2**30 // 512


async def test_scratch_lasts_from_one_command_to_the_next(
    kind: Kind, workspace: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    held = choose("workspace", prefer=kind)
    for command in ("echo kept > $TMPDIR/x", "cat $TMPDIR/x"):
        done = await held.run(command, workspace=workspace, env=ENV, timeout=30, scratch=scratch)
    assert done.output == "kept\n"


async def test_time_out_gives_the_command_its_sigterm(kind: Kind, workspace: Path) -> None:
    held = choose("workspace", prefer=kind)
    script = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    done = await held.run(script, workspace=workspace, env=ENV, timeout=2, kill_after=5)
    assert done.timed_out
    assert done.output.startswith("ready\n")
    assert done.output.endswith("cleaned\n")


async def test_cancellation_leaves_nothing_running(kind: Kind, workspace: Path) -> None:
    held = choose("workspace", prefer=kind)
    script = "trap '' TERM; while :; do date +%s%N > beat; sleep 0.05; done"
    job = held.run(script, workspace=workspace, env=ENV, timeout=60, grace=0.2, kill_after=0.2)
    task = asyncio.create_task(job)
    for _ in range(200):
        if (workspace / "beat").exists():
            break
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.2)
    last = (workspace / "beat").read_text()
    await asyncio.sleep(0.3)
    assert (workspace / "beat").read_text() == last


async def test_a_missing_workspace_is_said_so(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceFailed):
        await run(choose("workspace", prefer=kind), "true", tmp_path / "none")


@needs_bubblewrap
async def test_a_command_that_did_not_run_is_no_exit_code(workspace: Path, home: Path) -> None:
    unseen = home / "unseen"
    unseen.mkdir()
    held = choose("workspace", prefer="bubblewrap", home=home)
    with pytest.raises(SandboxUnavailable, match="did not run"):
        await held.run("true", workspace=workspace, env=ENV, timeout=30, cwd=unseen)


@needs_bubblewrap
async def test_a_hidden_folder_that_is_gone_is_not_made_again(workspace: Path) -> None:
    state = workspace / ".sf"
    state.mkdir()
    held = choose("workspace", prefer="bubblewrap", hidden=[state])
    state.rmdir()
    assert (await run(held, "true", workspace)).exit_code == 0
    assert not state.exists()


async def test_off_runs_as_it_is(workspace: Path, home: Path) -> None:
    held = choose("off")
    done = await run(held, f"cat {home}/secret; echo x > {home}/new; test -d $HOME", workspace)
    assert (done.exit_code, done.output) == (0, "the key")
    assert (home / "new").exists()
    assert describe(held).startswith("off")


def test_the_clean_environment_holds_no_keys() -> None:
    env = clean_env(
        {"PATH": "/bin", "LANG": "C", "API_KEY": "k", "HOME": "/h", "LD_PRELOAD": "x"}, {"SF_PHASE": "v"}
    )
    assert env == {
        "PATH": "/bin",
        "LANG": "C",
        "TERM": "dumb",
        "HOME": "/tmp/home",
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "SF_PHASE": "v",
    }


def test_describe_names_kind_profile_and_network(kind: Kind) -> None:
    line = describe(choose("workspace-no-network", prefer=kind))
    assert kind in line
    assert "no network" in line
