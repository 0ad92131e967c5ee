"""How a repository is laid out: its top folders, its packages, where its tests are."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from sf.domain import testfiles
from sf.survey import languages
from sf.survey.facts import Facts
from sf.survey.languages import ROLES
from sf.survey.tree import Tree, folder_of, table
from sf.survey.wording import plain, shown

_MOST = 30
_BRANCHES = 3
MANIFESTS = {
    "pyproject.toml": "Python",
    "setup.py": "Python",
    "package.json": "JavaScript",
    "go.mod": "Go",
    "Cargo.toml": "Rust",
    "pom.xml": "Java",
    "build.gradle": "Java",
    "build.gradle.kts": "Java",
    "composer.json": "PHP",
    "Gemfile": "Ruby",
}
_PURPOSES = (
    (re.compile(r"docs?$|documentation$", re.IGNORECASE), "documentation"),
    (re.compile(r"examples?$|samples?$|demos?$", re.IGNORECASE), "examples"),
    (re.compile(r"scripts?$|tools?$|bin$|hack$|dev$", re.IGNORECASE), "scripts and tools"),
    (re.compile(r"bench(marks?)?$", re.IGNORECASE), "benchmarks"),
    (re.compile(r"\.github$|\.gitlab$|\.circleci$|ci$"), "continuous integration"),
    (re.compile(r"migrations?$", re.IGNORECASE), "migrations"),
    (re.compile(r"deploy(ment)?s?$|k8s$|helm$|infra$|terraform$|docker$", re.IGNORECASE), "deployment"),
    (re.compile(r"assets?$|static$|public$|images?$|fonts?$", re.IGNORECASE), "assets"),
)


class Folder(msgspec.Struct, frozen=True):
    """A top folder: how much is in it, in which language most of it is, and what it seems to be for."""

    path: str
    files: int
    lines: int
    language: str
    purpose: str


class Package(msgspec.Struct, frozen=True):
    """A folder with a manifest of its own, or a Python package at the top of its import path."""

    path: str
    name: str
    kind: str


class Structure(msgspec.Struct, frozen=True):
    """The layout of a repository."""

    folders: tuple[Folder, ...] = ()
    packages: tuple[Package, ...] = ()
    test_folders: tuple[str, ...] = ()
    test_files: int = 0


def structure_of(tree: Tree, facts: Mapping[str, Facts]) -> Structure:
    """The layout of the files whose facts are known."""
    tests = [name for name in facts if is_test(name)]
    homes = Counter(_test_home(name) for name in tests)
    return Structure(
        folders=_folders(tree, facts),
        packages=_packages(tree),
        test_folders=tuple(shown(home) for home, _ in homes.most_common(10)),
        test_files=len(tests),
    )


@functools.lru_cache(maxsize=100_000)
def is_test(name: str) -> bool:
    """Whether a file is a test, and code: cases that are kept as data say nothing of a layout."""
    if not testfiles.is_test(name):
        return False
    named = testfiles.is_test_name(name.rpartition("/")[2])
    return ROLES.get(languages.of_name(name), "code" if named else "") == "code"


def _test_home(name: str) -> str:
    """The folder for tests that a test is in; a test beside its code is in the folder that holds both."""
    parts = name.split("/")[:-1]
    for depth, part in enumerate(parts, 1):
        if testfiles.is_test_folder(part):
            return "/".join(parts[:depth])
    return "/".join(parts) or "."


def _folders(tree: Tree, facts: Mapping[str, Facts]) -> tuple[Folder, ...]:
    files: Counter[str] = Counter(name.split("/", 1)[0] for name in tree.files if "/" in name)
    lines: Counter[str] = Counter()
    by_language: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, found in facts.items():
        top, slash, _ = name.partition("/")
        if slash and found.left_out is None and found.language:
            lines[top] += found.lines
            is_code = ROLES[found.language] == "code"
            by_language[top][found.language] += found.lines + 1 if is_code else found.lines // 10
    ranked = sorted(files, key=lambda top: (-lines[top], -files[top], top))[:_MOST]
    return tuple(
        Folder(
            path=shown(top),
            files=files[top],
            lines=lines[top],
            language=by_language[top].most_common(1)[0][0] if by_language[top] else "",
            purpose=_purpose(top),
        )
        for top in ranked
    )


def _purpose(top: str) -> str:
    if testfiles.is_test_folder(top):
        return "tests"
    return next((purpose for pattern, purpose in _PURPOSES if pattern.match(top)), "")


def _packages(tree: Tree) -> tuple[Package, ...]:
    found: dict[tuple[str, str], Package] = {}
    for manifest in tree.named(*MANIFESTS, most=_MOST * 2):
        folder, kind = folder_of(manifest), MANIFESTS[manifest.rpartition("/")[2]]
        if manifest.endswith("setup.py") and f"{folder}/__init__.py" in tree.present:
            continue
        package = Package(shown(folder) or ".", name_in(tree, manifest) or _last(folder), kind)
        found.setdefault((folder, kind), package)
    for init in tree.named("__init__.py", most=10_000):
        folder = folder_of(init)
        above = folder_of(folder)
        if folder and f"{above}/__init__.py".lstrip("/") not in tree.present and not is_test(init):
            package = Package(shown(folder), _last(folder), "Python package")
            found.setdefault((folder, "Python package"), package)
    return tuple(found.values())[:_MOST]


def _last(folder: str) -> str:
    return plain(folder.rpartition("/")[2], 80) or "the project"


def name_in(tree: Tree, manifest: str) -> str:
    """The name that a manifest gives its package; empty when it gives none."""
    found: object = ""
    match manifest.rpartition("/")[2]:
        case "pyproject.toml":
            found = table(tree.toml(manifest).get("project")).get("name")
        case "Cargo.toml":
            found = table(tree.toml(manifest).get("package")).get("name")
        case "package.json" | "composer.json":
            found = tree.json(manifest).get("name")
        case "go.mod":
            match = re.search(r"^module\s+(\S+)", tree.text(manifest), re.MULTILINE)
            found = match[1] if match else ""
    return plain(found, 80) if isinstance(found, str) else ""


def areas_of(names: Iterable[str]) -> Callable[[str], str]:
    """A function that gives a file's area: its folder, cut after three branchings.

    A folder that holds one folder and nothing else does not count, so that deep trees are told apart too.
    """
    children: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        parts = name.split("/")
        for depth in range(len(parts)):
            children["/".join(parts[:depth])].add(parts[depth])

    @functools.cache
    def within(folder: str) -> str:
        parts = folder.split("/") if folder else []
        branches = 0
        for depth in range(len(parts)):
            branches += len(children["/".join(parts[:depth])]) > 1
            if branches > _BRANCHES:
                return "/".join(parts[:depth])
        return folder

    return lambda name: within(folder_of(name))
