"""Check that imports point down: layer by layer between packages, and without cycles inside each."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "sf"
MEMORY = "singularity_memory"
"""A package of its own: it knows nothing of sf."""
LAYERS: dict[str, int] = {
    "domain": 0,
    "errors": 0,
    "files": 0,
    "held": 0,
    "unbroken": 0,
    "config": 1,
    "secrets": 1,
    "observe": 1,
    "paths": 1,
    "containment": 1,
    "store": 1,
    "workspaces": 2,
    "policy": 2,
    "providers": 2,
    "tools": 2,
    "routing": 2,
    "memory": 2,
    "survey": 2,
    "harness": 3,
    "review": 4,
    "scheduler": 5,
    "app": 6,
    "surfaces": 7,
}
APART = 2
"""The layer whose units do not import each other."""
SEEN_BY_SURFACES = frozenset({"app", "domain", "errors", "config", "paths"})
EXEMPT = frozenset({PACKAGE, f"{PACKAGE}.__main__"})
SHIPPED_FAKES = "testing"


class Import(NamedTuple):
    """One import statement: the module that has it, where, and the module it names."""

    importer: str
    file: Path
    line: int
    imported: str


class Violation(NamedTuple):
    """One broken rule."""

    file: Path
    line: int
    rule: str


def module_name(file: Path, source: Path) -> str:
    """The dotted name of a source file."""
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module: str) -> str:
    """The unit of the layer map that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports_of(file: Path, source: Path, known: frozenset[str]) -> Iterator[Import]:
    """Every import of the package's own modules in a file, at whatever depth."""
    importer = module_name(file, source)
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        for name in _named(node, package, known):
            if name.split(".")[0] in (PACKAGE, MEMORY):
                yield Import(importer, file, node.lineno, name)  # type: ignore[attr-defined]


def _named(node: ast.AST, package: str, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in known else base


def broken_rule(found: Import) -> str:
    """Which rule between units an import breaks; empty for none."""
    if found.importer in EXEMPT or unit_of(found.importer) == SHIPPED_FAKES:
        return ""
    if found.importer.split(".")[0] == MEMORY:
        apart = found.imported.split(".")[0] == PACKAGE
        return f"{MEMORY} imports nothing from {PACKAGE}, but {found.imported}" if apart else ""
    if found.imported.split(".")[0] == MEMORY:
        return ""
    here, there = unit_of(found.importer), unit_of(found.imported)
    if there == SHIPPED_FAKES:
        return f"{found.imported} is for tests only"
    if here == there or not there:
        return ""
    for unit in (here, there):
        if unit not in LAYERS:
            return f"{PACKAGE}.{unit} has no layer: name it in {Path(__file__).name}"
    if here == "surfaces" and there not in SEEN_BY_SURFACES:
        return f"a surface imports only {', '.join(sorted(SEEN_BY_SURFACES))}, not {found.imported}"
    if LAYERS[there] > LAYERS[here]:
        return f"layer {LAYERS[here]} ({here}) imports layer {LAYERS[there]} ({found.imported})"
    if LAYERS[here] == LAYERS[there] == APART:
        return f"units of layer {APART} do not import each other: {here} imports {found.imported}"
    return ""


def cycles(found: list[Import]) -> Iterator[Violation]:
    """One violation for each group of modules that import each other in a circle."""
    edges: dict[str, dict[str, Import]] = {}
    for item in found:
        if item.imported != item.importer and item.imported not in (PACKAGE, MEMORY):
            edges.setdefault(item.importer, {}).setdefault(item.imported, item)
    while True:
        try:
            graphlib.TopologicalSorter(edges).prepare()
        except graphlib.CycleError as error:
            ring: list[str] = error.args[1][::-1]
            item = edges[ring[0]].pop(ring[1])
            yield Violation(item.file, item.line, "import cycle: " + " → ".join(ring))
        else:
            return


def check(source: Path) -> list[Violation]:
    """Every violation below a source folder."""
    files = sorted(file for package in (PACKAGE, MEMORY) for file in (source / package).rglob("*.py"))
    known = frozenset(module_name(file, source) for file in files)
    found = [item for file in files for item in imports_of(file, source, known)]
    broken = [Violation(item.file, item.line, rule) for item in found if (rule := broken_rule(item))]
    return [*broken, *cycles(found)]


def main(arguments: list[str]) -> int:
    """Print each violation as `file:line: rule`; 1 when there is any."""
    source = Path(arguments[0]) if arguments else Path(__file__).parent.parent / "src"
    violations = check(source)
    for item in violations:
        print(f"{item.file.relative_to(source.parent)}:{item.line}: {item.rule}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
