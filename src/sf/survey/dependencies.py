"""What a repository declares that it needs, from the manifests of its packagers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sf.survey.tree import Tree, table, texts
from sf.survey.wording import plain, shown

_MOST_FILES = 60
_MOST = 150
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]{0,200}\])?\s*([^;#]*)")
_POM_FIELD = re.compile(r"<(groupId|artifactId|version|scope)>\s*([^<]{0,200}?)\s*</")
_GRADLE = re.compile(
    r"^[ \t]*(implementation|api|compileOnly|runtimeOnly|testImplementation|testRuntimeOnly|kapt)\b"
    r"""[ \t(]*["']([^"'\n:]{1,120}:[^"'\n:]{1,120})(?::([^"'\n]{0,60}))?["']""",
    re.MULTILINE,
)
_GEM = re.compile(
    r"""^[ \t]*gem[ \t]+["']([^"'\n]{1,80})["'](?:[ \t]*,[ \t]*["']([^"'\n]{0,40})["'])?""", re.MULTILINE
)
_GO = re.compile(r"^[ \t]*(?:require[ \t]+)?([\w~-][\w.~/-]{0,200})[ \t]+(v\d\S{0,80})(.*)$", re.MULTILINE)


class Dependency(msgspec.Struct, frozen=True):
    """One declared dependency: its name, the versions it may have, and whether only development needs it."""

    name: str
    versions: str
    found_in: str
    registry: str
    """The language whose packages it is one of."""
    development: bool = False


Found = Iterator[tuple[str, str, bool]]


def dependencies_of(tree: Tree) -> tuple[Dependency, ...]:
    """Every declared dependency, each name once for each packager, those of the topmost manifests first."""
    found: dict[tuple[str, str], Dependency] = {}
    manifests = {*tree.named(*_READERS, most=_MOST_FILES), *_requirement_files(tree)}
    for manifest in sorted(manifests, key=_nearness):
        registry, read = _READERS.get(manifest.rpartition("/")[2], ("Python", _requirements))
        for name, versions, development in itertools.islice(read(tree, manifest), _MOST):
            key = (registry, name.lower().replace("_", "-"))
            found.setdefault(key, _dependency(name, versions, manifest, registry, development))
    return tuple(found.values())


def _dependency(name: str, versions: str, manifest: str, registry: str, development: bool) -> Dependency:
    # An address may carry a password, and says nothing about versions.
    told = "(from an address)" if "://" in versions or "@" in versions else plain(versions, 40)
    return Dependency(plain(name, 80), told, shown(manifest), registry, development)


def _nearness(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _requirement_files(tree: Tree) -> list[str]:
    shape = re.compile(r"(^|/)(requirements[^/]*\.(txt|in)|requirements/[^/]+\.in)$")
    found = [name for name in tree.own if shape.search(name)]
    inputs = [name for name in found if name.endswith(".in")]
    # A compiled list names everything; what people chose is in what it was compiled from.
    return sorted((name for name in found if not _compiled(name, inputs)), key=_nearness)[:20]


def _compiled(name: str, inputs: list[str]) -> bool:
    return name.endswith(".txt") and name.removesuffix(".txt") + ".in" in inputs


def _requirement(text: str) -> tuple[str, str] | None:
    match = _REQUIREMENT.match(text)
    return (match[1], match[2].strip().rstrip("\\").strip()) if match else None


def _requirements(tree: Tree, name: str) -> Found:
    development = bool(re.search(r"dev|test|lint|doc|bench", name.rpartition("/")[2]))
    for line in tree.text(name).splitlines():
        if not line.lstrip().startswith(("#", "-")) and "://" not in line and (found := _requirement(line)):
            yield *found, development


def _pyproject(tree: Tree, name: str) -> Found:
    content = tree.toml(name)
    project, poetry = table(content.get("project")), table(table(content.get("tool")).get("poetry"))
    for line in texts(project.get("dependencies")):
        if found := _requirement(line):
            yield *found, False
    groups = [*table(project.get("optional-dependencies")).values()]
    for group in (*groups, *table(content.get("dependency-groups")).values()):
        for line in texts(group):
            if found := _requirement(line):
                yield *found, True
    yield from _pinned(poetry.get("dependencies"), development=False, but=("python",))
    yield from _pinned(poetry.get("dev-dependencies"), development=True)
    for group in table(poetry.get("group")).values():
        yield from _pinned(table(group).get("dependencies"), development=True)


def _pinned(found: Any, *, development: bool, but: tuple[str, ...] = ()) -> Found:
    """The entries of a table of names and versions, or of names and tables that have a version."""
    for name, value in table(found).items():
        versions = value if isinstance(value, str) else table(value).get("version", "")
        if name not in but:
            yield name, versions if isinstance(versions, str) else "", development


def _package_json(tree: Tree, name: str) -> Found:
    content = tree.json(name)
    for key in ("dependencies", "peerDependencies", "optionalDependencies", "devDependencies"):
        yield from _pinned(content.get(key), development=key == "devDependencies")


def _composer(tree: Tree, name: str) -> Found:
    content = tree.json(name)
    yield from _pinned(content.get("require"), development=False, but=("php",))
    yield from _pinned(content.get("require-dev"), development=True)


def _cargo(tree: Tree, name: str) -> Found:
    content = tree.toml(name)
    yield from _pinned(content.get("dependencies"), development=False)
    yield from _pinned(table(content.get("workspace")).get("dependencies"), development=False)
    yield from _pinned(content.get("dev-dependencies"), development=True)
    yield from _pinned(content.get("build-dependencies"), development=True)


def _go(tree: Tree, name: str) -> Found:
    for match in _GO.finditer(tree.text(name)):
        if "// indirect" not in match[3] and "=>" not in match[0]:
            yield match[1], match[2], False


def _pom(tree: Tree, name: str) -> Found:
    for block in tree.text(name).split("<dependency>")[1:]:
        fields = dict(_POM_FIELD.findall(block.partition("</dependency>")[0][:2000]))
        if "artifactId" in fields:
            where = f"{fields.get('groupId', '')}:{fields['artifactId']}".lstrip(":")
            yield where, fields.get("version", ""), fields.get("scope") == "test"


def _gradle(tree: Tree, name: str) -> Found:
    for match in _GRADLE.finditer(tree.text(name)):
        yield match[2], match[3] or "", match[1].startswith("test")


def _gemfile(tree: Tree, name: str) -> Found:
    for match in _GEM.finditer(tree.text(name)):
        yield match[1], match[2] or "", False


_READERS: dict[str, tuple[str, Callable[[Tree, str], Found]]] = {
    "pyproject.toml": ("Python", _pyproject),
    "package.json": ("JavaScript", _package_json),
    "go.mod": ("Go", _go),
    "Cargo.toml": ("Rust", _cargo),
    "pom.xml": ("Java", _pom),
    "build.gradle": ("Java", _gradle),
    "build.gradle.kts": ("Java", _gradle),
    "Gemfile": ("Ruby", _gemfile),
    "composer.json": ("PHP", _composer),
}
