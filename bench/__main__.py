"""`python -m bench [name …]`: run the benchmarks, or those that are named, and print one table."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.table import Row, render
from bench.timing import MANY_ROUNDS, ROUNDS, Stopwatch

BENCHMARKS = {
    "null-unit": "bench.null_unit",
    "drain": "bench.drain",
    "transition": "bench.transition",
    "tick": "bench.tick",
    "turn": "bench.turn",
    "wake": "bench.wake",
    "commands": "bench.commands",
    "prompts": "bench.prompt_size",
    "init": "bench.survey",
}
APART = {"memory": "bench.memory"}
"""Those that need an environment of their own, and so run only when they are named."""

_BUILD = Path(__file__).resolve().parent.parent / "build"


def main(names: Sequence[str]) -> int:
    """Exit code 0 when everything could be measured, whatever the figures say."""
    known = BENCHMARKS | APART
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    # On the checkout's disk: the system's temporary folder may be memory, where fsync costs nothing.
    _BUILD.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=_BUILD))
    try:
        return _run_all(list(names) or list(BENCHMARKS), scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            _BUILD.rmdir()


def _run_all(names: Sequence[str], scratch: Path) -> int:
    print(machine.describe(scratch))
    rounds = f"{ROUNDS} rounds (drain: {MANY_ROUNDS})"
    print(f"medians of {rounds}, interleaved; SQLite synchronous=FULL everywhere\n", flush=True)
    whole, rows, failed = Stopwatch(), [], []
    for name in names:
        folder = scratch / name
        folder.mkdir()
        watch = Stopwatch()
        try:
            rows += _run_one(name, folder)
        except Exception:  # a benchmark's boundary: shown in full, and the exit code says so
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {watch.seconds():.0f} s", file=sys.stderr, flush=True)
    print(render(rows))
    after = f"fsync {machine.fsync_seconds(scratch) * 1000:.2f} ms, load {os.getloadavg()[0]:.1f}"
    print(f"\n{whole.seconds():.0f} s in all; afterwards: {after}")
    if failed:
        print(f"could not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run_one(name: str, folder: Path) -> list[Row]:
    rows: list[Row] = asyncio.run(importlib.import_module((BENCHMARKS | APART)[name]).measure(folder))
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
