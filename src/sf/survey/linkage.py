"""Which module needs which: imports as they are written, followed to the files that they mean."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from posixpath import normpath

import msgspec

from sf.survey.facts import Definition, Facts, Import
from sf.survey.structure import areas_of, is_test
from sf.survey.tree import Tree, folder_of, table
from sf.survey.wording import shown

_SCRIPTS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".d.ts", ".vue", ".svelte")
_MOST = 40
_OUTLINE = 25


class Module(msgspec.Struct, frozen=True):
    """A file, or a folder where the language imports those, by how many files need it; and what it offers."""

    path: str
    importers: int
    definitions: tuple[Definition, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """Files of one area that need another area, tests left out."""

    source: str
    target: str
    imports: int


class Linkage(msgspec.Struct, frozen=True):
    """The inner dependencies of a repository."""

    internal: int = 0
    """Imports that lead to a file of the repository."""
    modules: tuple[Module, ...] = ()
    edges: tuple[Edge, ...] = ()
    external: tuple[tuple[str, int], ...] = ()
    """What is imported most from elsewhere, with the number of files that do."""


def linkage_of(tree: Tree, facts: Mapping[str, Facts]) -> Linkage:
    """Follow every import of the files whose facts are known."""
    index = Index(tree, facts)
    area = areas_of(tree.files)
    internal = 0
    importers: Counter[str] = Counter()
    edges: Counter[tuple[str, str]] = Counter()
    external: Counter[str] = Counter()
    for name, found in facts.items():
        targets, strangers = _followed(index, name, found)
        internal += len(targets)
        external.update(strangers)
        for target in targets:
            importers[target] += 1
            pair = (area(name) or ".", area(f"{target}." if target in index.folders else target) or ".")
            if pair[0] != pair[1] and not is_test(name):
                edges[pair] += 1
    first = sorted(importers, key=lambda name: (-importers[name], name))[:_MOST]
    return Linkage(
        internal=internal,
        modules=tuple(Module(shown(name), importers[name], _offers(facts, name)) for name in first),
        edges=tuple(
            Edge(shown(source), shown(target), count)
            for (source, target), count in sorted(edges.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
        ),
        external=tuple(sorted(external.items(), key=lambda item: (-item[1], item[0]))[:_MOST]),
    )


def _offers(facts: Mapping[str, Facts], name: str) -> tuple[Definition, ...]:
    return facts[name].outline.definitions[:_OUTLINE] if name in facts else ()


def _followed(index: Index, name: str, found: Facts) -> tuple[set[str], set[str]]:
    """The files that one file needs, and the names of the packages elsewhere."""
    follow = _FOLLOWED.get(found.language)
    targets: set[str] = set()
    strangers: set[str] = set()
    for item in found.outline.imports if follow else ():
        assert follow is not None
        target = follow(index, name, item)
        if target and target != name:
            targets.add(target)
        elif target is None and (stranger := _stranger(found.language, item.module)):
            strangers.add(stranger)
    return targets, strangers


def _stranger(language: str, module: str) -> str:
    """The package that an import from elsewhere belongs to; empty where the text does not tell."""
    if language in ("JavaScript", "TypeScript"):
        parts = module.removeprefix("node:").split("/")
        return "" if module.startswith((".", "/")) else "/".join(parts[: 2 if module.startswith("@") else 1])
    if language == "Python":
        return module.split(".")[0]
    if language == "Rust":
        head = re.split(r"::|\s|\{", module)[0]
        return head if head not in ("crate", "self", "super", "") else ""
    return module if language in ("Go", "Ruby") else ""


class Index:
    """The files of a repository by the names under which they are imported."""

    def __init__(self, tree: Tree, facts: Mapping[str, Facts]) -> None:
        self.present = tree.present
        self.folders = {folder_of(name) for name in tree.files}
        self.python: defaultdict[str, list[str]] = defaultdict(list)
        self.by_last: defaultdict[str, list[str]] = defaultdict(list)
        self.types: dict[str, str] = {}
        self.namespaces: dict[str, str] = {}
        self.go: list[tuple[str, str]] = []
        self.crates: dict[str, str] = {}
        for name, found in facts.items():
            self._enter(name, found)
        for manifest in tree.named("go.mod"):
            match = re.search(r"^module\s+(\S+)", tree.text(manifest), re.MULTILINE)
            if match:
                self.go.append((match[1], folder_of(manifest)))
        for manifest in tree.named("Cargo.toml"):
            crate = table(tree.toml(manifest).get("package")).get("name")
            if isinstance(crate, str):
                self.crates[crate.replace("-", "_")] = folder_of(manifest)

    def _enter(self, name: str, found: Facts) -> None:
        if found.language == "Python":
            for module in _python_names(name, self.present):
                self.python[module].append(name)
        elif found.language in ("C", "C++", "Ruby", "Shell"):
            self.by_last[name.rpartition("/")[2]].append(name)
        elif found.language in ("Java", "PHP", "C#"):
            space = found.outline.namespace.replace("\\", ".")
            self.namespaces.setdefault(space, folder_of(name))
            for definition in found.outline.definitions:
                self.types.setdefault(f"{space}.{definition.name}", name)

    def nearest(self, candidates: Iterable[str], name: str) -> str | None:
        """The candidate that shares most folders with a file; None when there is none."""
        parts = name.split("/")

        def shared(candidate: str) -> int:
            pairs = zip(parts, candidate.split("/"), strict=False)
            return next((depth for depth, (a, b) in enumerate(pairs) if a != b), len(parts))

        return max(candidates, key=lambda item: (shared(item), -len(item), item), default=None)

    def first(self, *candidates: str) -> str | None:
        """The first of the paths that is a tracked file."""
        return next((path for path in map(normpath, candidates) if path in self.present), None)

    def ending(self, path: str, name: str) -> str | None:
        """The file, nearest to another, whose path ends with this one."""
        path = normpath(path).lstrip("./")
        found = self.by_last.get(path.rpartition("/")[2], ())
        return self.nearest((item for item in found if item == path or item.endswith("/" + path)), name)


def _python_names(name: str, present: frozenset[str]) -> Iterator[str]:
    """The dotted names of a module: from where its packages begin, from the top, and from a folder `src`."""
    parts = re.sub(r"\.pyi?$", "", name).split("/")
    if parts[-1] == "__init__":
        parts.pop()
    start = max(len(parts) - 1, 0)
    while start > 0 and "/".join([*parts[:start], "__init__.py"]) in present:
        start -= 1
    starts = {start, 0, *(depth + 1 for depth, part in enumerate(parts) if part in ("src", "lib", "python"))}
    yield from {".".join(parts[depth:]) for depth in starts if parts[depth:]}


def _follow_python(index: Index, name: str, item: Import) -> str | None:
    if item.module.startswith("."):
        rest = item.module.lstrip(".")
        above = len(item.module) - len(rest)
        folder = name.split("/")[:-above]
        base = "/".join([*folder, *(rest.split(".") if rest else ())])
        tries = [f"{base}/{item.member}", base] if item.member else [base]
        found = index.first(*(f"{path}{end}" for path in tries for end in (".py", "/__init__.py", ".pyi")))
        return found or ""
    if item.module.split(".")[0] in sys.stdlib_module_names:
        return None
    tries = [f"{item.module}.{item.member}", item.module] if item.member else [item.module]
    while "." in tries[-1] and not item.member:
        tries.append(tries[-1].rpartition(".")[0])
    for module in tries:
        if module in index.python and (found := index.nearest(index.python[module], name)):
            return found
    return None


def _follow_script(index: Index, name: str, item: Import) -> str | None:
    if not item.module.startswith("."):
        return None
    base = normpath(f"{folder_of(name)}/{item.module}".lstrip("/"))
    stem = re.sub(r"\.[cm]?jsx?$", "", base)
    ends = (*_SCRIPTS, *(f"/index{end}" for end in _SCRIPTS))
    return index.first(base, *(f"{path}{end}" for path in dict.fromkeys((base, stem)) for end in ends)) or ""


def _follow_go(index: Index, name: str, item: Import) -> str | None:
    for module, folder in index.go:
        if item.module == module or item.module.startswith(module + "/"):
            path = normpath(f"{folder}/{item.module[len(module) :]}".lstrip("/") or ".").lstrip("/")
            return path if path in index.folders else ""
    return None


def _follow_rust(index: Index, name: str, item: Import) -> str | None:
    text = re.split(r"[{*;]|\sas\s", item.module)[0].strip().rstrip(":")
    parts = [part for part in text.split("::") if part]
    stem = re.sub(r"(/mod|/lib|/main)?\.rs$", "", name)
    if len(parts) == 1 and re.fullmatch(r"\w+", item.module):
        # `mod x;`: beside a mod.rs, lib.rs or main.rs, else in the folder of the module's own name.
        return index.first(f"{stem}/{parts[0]}.rs", f"{stem}/{parts[0]}/mod.rs") or None
    if parts[:1] == ["crate"]:
        root = name[: name.rfind("src/") + 4] if "src/" in name else folder_of(name) + "/"
        return _rust_path(index, root, parts[1:])
    if parts[:1] in (["super"], ["self"]):
        above = sum(part == "super" for part in parts)
        root = "/".join(stem.split("/")[: len(stem.split("/")) - above])
        return _rust_path(index, f"{root}/", [part for part in parts if part not in ("super", "self")])
    if parts and parts[0] in index.crates:
        return _rust_path(index, f"{index.crates[parts[0]]}/src/".lstrip("/"), parts[1:])
    return None


def _rust_path(index: Index, root: str, parts: list[str]) -> str:
    """The file of the longest beginning of a path; else the crate's own; else nothing."""
    for end in range(len(parts), 0, -1):
        base = root + "/".join(parts[:end])
        if found := index.first(f"{base}.rs", f"{base}/mod.rs"):
            return found
    return index.first(f"{root}lib.rs", f"{root}main.rs", f"{root.rstrip('/')}.rs", f"{root}mod.rs") or ""


def _follow_type(index: Index, name: str, item: Import) -> str | None:
    module = item.module.replace("\\", ".").lstrip(".")
    if "/" in module or item.module.endswith(".php"):
        return index.first(f"{folder_of(name)}/{item.module.lstrip('/')}".lstrip("/"))
    return (
        index.types.get(module) or index.types.get(module.rpartition(".")[0]) or index.namespaces.get(module)
    )


def _follow_include(index: Index, name: str, item: Import) -> str | None:
    return index.first(f"{folder_of(name)}/{item.module}".lstrip("/")) or index.ending(item.module, name)


def _follow_ruby(index: Index, name: str, item: Import) -> str | None:
    path = item.module if item.module.endswith(".rb") else f"{item.module}.rb"
    if item.member == "require_relative":
        return index.first(f"{folder_of(name)}/{path}".lstrip("/")) or ""
    return index.first(f"lib/{path}") or (index.ending(f"lib/{path}", name))


_FOLLOWED: dict[str, Callable[[Index, str, Import], str | None]] = {
    "Python": _follow_python,
    "JavaScript": _follow_script,
    "TypeScript": _follow_script,
    "Go": _follow_go,
    "Rust": _follow_rust,
    "Java": _follow_type,
    "PHP": _follow_type,
    "C#": _follow_type,
    "C": _follow_include,
    "C++": _follow_include,
    "Ruby": _follow_ruby,
    "Shell": _follow_include,
}
"""For each language: what an import means here; None for another project's, empty for what is not found."""
