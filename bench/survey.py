"""`sf init` on a repository of 10,000 files in eight languages with a history of 500 commits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from bench.table import Row
from bench.timing import Stopwatch

FILES = 10_000
COMMITS = 500
_FUNCTIONS = 12
_LOOP = """{{
  int t = 0;
  for (int i = 0; i < x; i++) t += i * {k};
  return t;
}}
"""
_FORMS = {
    "py": "def f{n}_{k}(x):\n    t = 0\n    for i in range(x):\n        t += i\n    return t\n\n\n",
    "ts": "export function f{n}_{k}(x: number): number {{\n  let t = 0;\n  t += x;\n  return t;\n}}\n\n",
    "js": "export const f{n}_{k} = (x) => {{\n  const a = [1, 2].map((i) => i * x);\n  return a;\n}};\n\n",
    "go": "func F{n}_{k}(x int) int {{\n\tfor i := 0; i < x; i++ {{\n\t\tx += i\n\t}}\n\treturn x\n}}\n",
    "rs": "pub fn f{n}_{k}(x: i64) -> i64 {{\n    (0..x).map(|i| i * {k}).sum::<i64>() + {n}\n}}\n\n",
    "java": "class C{n}_{k} {{\n  int f(int x) " + _LOOP + "}}\n",
    "c": "int f{n}_{k}(int x) " + _LOOP + "\n",
    "md": "## Part {n} {k}\n\nWords about it.\n\n",
}
_HEADS = {
    "py": "import os\nfrom pkg.p{p}.m0 import f0_0\n\n\n",
    "ts": "import {{ f0_0 }} from './m1';\n",
    "js": "import x from './m2';\n",
    "go": 'package p{p}\n\nimport "example.com/big/pkg/p0"\n\n',
    "java": "package p{p};\nimport p0.C5_0;\n",
    "c": '#include <stdio.h>\n#include "m0.h"\n',
}


async def measure(scratch: Path) -> list[Row]:
    """One row: the command as a whole process, once."""
    project = scratch / "project"
    await asyncio.to_thread(make, project, FILES, COMMITS)
    environment = {**os.environ, "SF_HOME": str(scratch / "home")}
    sf = str(Path(sys.executable).with_name("sf"))
    quick = await asyncio.to_thread(_timed, [sf, "init", "--quick"], project, environment)
    deep = await asyncio.to_thread(_timed, [sf, "init"], project, environment)
    return [Row("sf init, 10,000 files", deep, "s", "sf init --quick", quick, most=60)]


def make(root: Path, files: int, commits: int) -> None:
    """A repository of this many files, in folders of fifty, with a history over some of them."""
    root.mkdir(parents=True)
    ends = list(_FORMS)
    names = []
    for number in range(files):
        end, package = ends[number % len(ends)], number // 50
        name = root / "pkg" / f"p{package}" / f"m{number}.{end}"
        name.parent.mkdir(parents=True, exist_ok=True)
        head = _HEADS.get(end, "").format(p=package)
        name.write_text(head + "".join(_FORMS[end].format(n=number, k=k) for k in range(_FUNCTIONS)))
        names.append(name)
    (root / "go.mod").write_text("module example.com/big\n")
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "Begin")
    for number in range(commits - 1):
        changed = [names[(number * 7 + step) % files] for step in range(4)]
        for name in changed:
            name.write_text(name.read_text() + "\n")
        _git(root, "commit", "-q", "-m", f"Change {number}", "--", *map(str, changed))


def _git(root: Path, *words: str) -> None:
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]
    subprocess.run(["git", *identity, *words], cwd=root, check=True, timeout=300, stdout=subprocess.DEVNULL)


def _timed(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    watch = Stopwatch()
    subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=600)
    return watch.seconds()
