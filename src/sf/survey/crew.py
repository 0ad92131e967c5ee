"""Looking into many files with a few processes: bounded in time, and no file can take the others down."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import sys
import time
import zlib
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

import msgspec

import sf
from sf.survey.facts import Asked, Facts
from sf.survey.grammars import TABLES
from sf.unbroken import or_undone

_WINDOW = 8
"""Files asked for ahead of the answers: few enough that the names always fit into a pipe."""
_LINE = 4 << 20
_SILENCE = 60.0
_GRACE = 2.0
_MOST_CRASHES = 25
_PER_WORKER = 20
"""Files below which another process costs more than it brings."""

Told = Callable[[int, int], None]


class Examined(msgspec.Struct, frozen=True):
    """The facts of every file that was asked for, and why some are missing."""

    facts: dict[str, Facts]
    trouble: str = ""
    """Why parsing could not go on, where it could not."""


class _Job:
    """The queue that the workers share."""

    def __init__(self, wanted: Iterable[tuple[str, str]], deadline: float, told: Told) -> None:
        # Source before the rest, and mixed: a scan that runs out of time has seen something of everything.
        ordered = sorted(
            wanted, key=lambda pair: (pair[1] not in TABLES, zlib.crc32(os.fsencode(pair[0])), pair[0])
        )
        self.waiting = collections.deque(ordered)
        self.total = len(ordered)
        self.deadline = deadline
        self.found: dict[str, Facts] = {}
        self.crashes = 0
        self.trouble = ""
        self._told = told

    def next(self) -> tuple[str, str] | None:
        """The next file, unless the time is over or parsing goes wrong too often."""
        if not self.waiting or self.trouble or time.monotonic() > self.deadline:
            return None
        return self.waiting.popleft()

    def answered(self, name: str, facts: Facts) -> None:
        self.found[name] = facts
        self._told(len(self.found), self.total)

    def crashed(self, open_files: collections.deque[tuple[str, str]]) -> None:
        """The first file without an answer ended the worker, or the deadline did; the others wait again."""
        self.crashes += 1
        if open_files and time.monotonic() < self.deadline:
            name, language = open_files.popleft()
            self.answered(name, Facts(language, left_out="crashed"))
        self.waiting.extendleft(reversed(open_files))
        open_files.clear()
        if self.crashes >= _MOST_CRASHES:
            self.trouble = f"parsing was given up after {self.crashes} crashes"


async def examine(
    root: Path,
    wanted: Iterable[tuple[str, str]],
    *,
    seconds: float,
    told: Told,
    workers: int = 0,
    seconds_per_file: float = 5.0,
) -> Examined:
    """Look into every (name, language). What the time did not suffice for is left out as `late`.

    A file has its own limit, in seconds of work: some texts keep a parser busy for hours.
    """
    job = _Job(wanted, time.monotonic() + seconds, told)
    number = workers or max(1, min(os.cpu_count() or 1, 4, job.total // _PER_WORKER))
    if job.total:
        told(0, job.total)
        await _together([_work(root, job, seconds_per_file) for _ in range(number)])
    late = {name: Facts(language, left_out="late") for name, language in job.waiting}
    return Examined({**job.found, **late}, job.trouble)


async def _together(parts: list[Coroutine[None, None, None]]) -> None:
    """Run all to their end; when one fails, end the others and raise what it raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _work(root: Path, job: _Job, seconds_per_file: float) -> None:
    while job.waiting and not job.trouble and time.monotonic() < job.deadline:
        try:
            process = await or_undone(_start(root, seconds_per_file), _end)
        except OSError as error:
            job.trouble = f"no process could be started to parse with: {error.strerror}"
            return
        try:
            await _converse(process, job)
        finally:
            # Whoever is cancelled is cancelled again by `_together`: nobody would collect the process.
            await or_undone(_end(process))


async def _start(root: Path, seconds_per_file: float) -> asyncio.subprocess.Process:
    """A worker that imports sf from where this one is, and nothing from the folder it stands in."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "sf.survey._worker", str(root), str(seconds_per_file)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={"PYTHONPATH": str(Path(sf.__file__).parent.parent), "LC_ALL": "C.UTF-8"},
        limit=_LINE,
    )


async def _converse(process: asyncio.subprocess.Process, job: _Job) -> None:
    """Ask and take answers until nothing is left, or the worker ends or falls silent."""
    assert process.stdin is not None and process.stdout is not None
    asked: collections.deque[tuple[str, str]] = collections.deque()
    decoder = msgspec.json.Decoder(Facts)
    while True:
        while len(asked) < _WINDOW and (file := job.next()) is not None:
            asked.append(file)
            line = msgspec.json.encode(Asked(os.fsencode(file[0]), file[1]))
            process.stdin.write(line + b"\n")
        if not asked:
            return
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(min(_SILENCE, max(0.0, job.deadline - time.monotonic()) + _GRACE)):
                await process.stdin.drain()
                answer = await process.stdout.readline()
        if not answer.endswith(b"\n"):
            job.crashed(asked)
            return
        job.answered(asked.popleft()[0], decoder.decode(answer))


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    # What it wrote must be taken off its pipe: until then its end is not known.
    await asyncio.gather(process.wait(), process.stdout.read())
