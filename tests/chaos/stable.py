"""A process that has sf loaded and becomes it on demand: a sweep starts sf many thousand times.

What a start does before it touches the project is spared, and that the interpreter is taken down where no
blow is dealt; from `main` on it is sf as installed.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import msgspec

import sf
from sf.__main__ import main as sf_main
from sf.config.check import Problems, section
from sf.config.schema import Config
from tests.chaos import tracer
from tests.chaos.tracer import Order


class Ended(msgspec.Struct, frozen=True):
    """How a process ended and what it said."""

    code: int
    stdout: str
    stderr: str


class Wish(msgspec.Struct, frozen=True):
    """A start of sf: where, with what, and whether under the tracer."""

    arguments: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    stdout: str
    stderr: str
    order: Order | None
    timeout: float


class Stable:
    """Starts of sf, one after the other, from a process that is there already."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.stable"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if os.environ.get("SF_CHAOS", "") == "full":
            _keep_to_one_core(self._process.pid, os.environ.get("PYTEST_XDIST_WORKER", ""))

    def sf(
        self,
        *arguments: str,
        cwd: Path,
        environment: dict[str, str],
        order: Order | None = None,
        timeout: float = 90.0,
    ) -> Ended:
        """Run sf to its end; a killed one has a negative code, or what its tracer made of it."""
        with tempfile.TemporaryDirectory() as folder:
            stdout, stderr = Path(folder) / "stdout", Path(folder) / "stderr"
            wish = Wish(arguments, str(cwd), environment, str(stdout), str(stderr), order, timeout)
            code = self._ask(wish)
            text = [path.read_bytes().decode("utf-8", "replace") for path in (stdout, stderr)]
        return Ended(code, *text)

    def close(self) -> None:
        """End the process that waits."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)

    def _ask(self, wish: Wish) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(wish) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError("the process that starts sf is gone")
        if answer[0] == b"overdue":
            raise TimeoutError(f"sf {' '.join(wish.arguments)} took more than {wish.timeout} s")
        return int(answer[1])


def _keep_to_one_core(pid: int, worker: str) -> None:
    """What is traced and its tracer take turns thousands of times: to wake another core takes longer."""
    cores = sorted(os.sched_getaffinity(0))
    if worker.removeprefix("gw").isdigit():
        os.sched_setaffinity(pid, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def _serve() -> None:
    """Fork for every wish on stdin."""
    _load()
    requests = os.fdopen(os.dup(0), "rb")
    while line := requests.readline():
        wish = msgspec.json.decode(line, type=Wish)
        child = os.fork()
        if child == 0:
            _end(_become(wish))
        os.write(1, _waited(child, wish.timeout))


def _load() -> None:
    """Import all of sf once, and look up what its configuration may be; forks share it."""
    for module in pkgutil.walk_packages(sf.__path__, "sf."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    section(msgspec.to_builtins(Config()), Config, Problems("nothing"))
    gc.freeze()


def _become(wish: Wish) -> int:
    os.chdir(wish.cwd)
    os.environ.clear()
    os.environ.update(wish.environment)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = (os.open(os.devnull, os.O_RDONLY), os.open(wish.stdout, flags), os.open(wish.stderr, flags))
    for standard, descriptor in enumerate(opened):
        os.dup2(descriptor, standard)
    os.closerange(3, 64)
    sys.argv = ["sf", *wish.arguments]
    if wish.order is None:
        return sf_main()
    return tracer.trace(wish.order, sf_main)


def _end(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _waited(child: int, timeout: float) -> bytes:
    """How the child ended; one that takes too long is killed."""

    def overdue(number: int, frame: object) -> None:
        os.kill(child, signal.SIGKILL)
        late.append(True)

    late: list[bool] = []
    signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return b"overdue\n" if late else b"ended %d\n" % os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _serve()
