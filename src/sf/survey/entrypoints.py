"""Where a repository's programs begin: scripts, binaries, mains, container commands, make targets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from sf.survey.commands import MAKEFILES, make_targets, npm_scripts
from sf.survey.facts import Facts
from sf.survey.structure import is_test
from sf.survey.tree import Tree, folder_of, table
from sf.survey.wording import plain, shown

Kind = Literal["command", "script", "main", "library", "container", "process", "target"]
_MOST_FILES = 40
_MOST = 60
_ORDER: tuple[Kind, ...] = ("command", "main", "container", "process", "library", "script", "target")


class EntryPoint(msgspec.Struct, frozen=True):
    """One beginning: what it is called, what it starts, and the file that says so."""

    kind: Kind
    name: str
    target: str
    found_in: str


def entry_points(tree: Tree, facts: Mapping[str, Facts]) -> tuple[EntryPoint, ...]:
    """Every entry point that the manifests and the sources show, commands first; at most sixty."""
    found = dict.fromkeys((*_python(tree), *_node(tree), *_cargo(tree), *_mains(facts), *_processes(tree)))
    found.update(dict.fromkeys(_targets(tree)))
    return tuple(sorted(found, key=lambda item: _ORDER.index(item.kind)))[:_MOST]


def _entry(kind: Kind, name: str, target: object, found_in: str) -> EntryPoint:
    told = target if isinstance(target, str) else ""
    return EntryPoint(kind, plain(name, 80), plain(told, 160), shown(found_in))


def _python(tree: Tree) -> Iterator[EntryPoint]:
    for manifest in tree.named("pyproject.toml", most=_MOST_FILES):
        content = tree.toml(manifest)
        project, poetry = table(content.get("project")), table(table(content.get("tool")).get("poetry"))
        for scripts in (project.get("scripts"), project.get("gui-scripts"), poetry.get("scripts")):
            for name, target in table(scripts).items():
                yield _entry("command", name, target, manifest)
    for manifest in tree.named("setup.cfg", most=_MOST_FILES):
        for name, target in _console_scripts(tree.text(manifest)):
            yield _entry("command", name, target, manifest)
    for name in tree.named("__main__.py", most=_MOST_FILES):
        package = folder_of(name).rpartition("/")[2]
        if package:
            yield _entry("main", f"python -m {package}", name, name)


def _console_scripts(text: str) -> Iterator[tuple[str, str]]:
    """The pairs below `console_scripts` in a setup.cfg; its own parser is slow on lines made to be slow."""
    inside = False
    for line in text.partition("[options.entry_points]")[2].partition("\n[")[0].splitlines():
        name, equals, target = line[:300].partition("=")
        if line[:1].strip():
            inside = name.strip() == "console_scripts"
        elif inside and equals:
            yield name.strip(), target.strip()


def _node(tree: Tree) -> Iterator[EntryPoint]:
    for manifest in tree.named("package.json", most=_MOST_FILES):
        content = tree.json(manifest)
        own = content.get("name") if isinstance(content.get("name"), str) else "package"
        binaries = content.get("bin")
        named = {str(own): binaries} if isinstance(binaries, str) else table(binaries)
        for name, target in named.items():
            yield _entry("command", name, target, manifest)
        for key in ("main", "module"):
            if isinstance(content.get(key), str):
                yield _entry("library", str(own), content[key], manifest)
                break
        for name, line in npm_scripts(tree, manifest).items():
            yield _entry("script", f"npm run {name}", line, manifest)


def _cargo(tree: Tree) -> Iterator[EntryPoint]:
    for manifest in tree.named("Cargo.toml", most=_MOST_FILES):
        content, folder = tree.toml(manifest), folder_of(manifest)
        name = table(content.get("package")).get("name", "")
        below = f"{folder}/" if folder else ""
        if f"{below}src/main.rs" in tree.present:
            yield _entry("command", f"cargo run ({name})", f"{below}src/main.rs", manifest)
        binaries = content.get("bin")
        for binary in binaries if isinstance(binaries, list) else []:
            yield _entry("command", str(table(binary).get("name", "")), table(binary).get("path"), manifest)


def _mains(facts: Mapping[str, Facts]) -> Iterator[EntryPoint]:
    for name in sorted(facts, key=lambda name: (name.count("/"), name)):
        found = facts[name]
        if not found.outline.main or is_test(name) or name.endswith(("__main__.py", "src/main.rs")):
            continue
        called = {"Go": f"go run ./{folder_of(name)}", "Python": f"python {name}"}
        yield _entry("main", called.get(found.language, f"{found.language} main"), name, name)


def _processes(tree: Tree) -> Iterator[EntryPoint]:
    images = [
        name for name in tree.own if name.rpartition("/")[2].startswith(("Dockerfile", "Containerfile"))
    ]
    for name in images[:_MOST_FILES]:
        for word, line in re.findall(r"^(CMD|ENTRYPOINT)[ \t]+(\S.{0,200})$", tree.text(name), re.MULTILINE)[
            :4
        ]:
            yield _entry("container", word, line, name)
    for name in tree.named("Procfile", most=_MOST_FILES):
        for process, line in re.findall(r"^([\w-]{1,40}):[ \t]*(\S.{0,200})$", tree.text(name), re.MULTILINE):
            yield _entry("process", process, line, name)


def _targets(tree: Tree) -> Iterator[EntryPoint]:
    for name in MAKEFILES:
        for target in dict.fromkeys(make_targets(tree, name)):
            yield _entry("target", f"make {target}", target, name)
