from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.policy.areas import PROTECTED, Change, matches, violations

NAME = st.text(alphabet="ab.c", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
GLOB_SEGMENT = st.one_of(
    st.just("**"), st.text(alphabet="ab.*?", min_size=1, max_size=4).filter(lambda s: s != ".")
)
GLOB = st.lists(GLOB_SEGMENT, min_size=1, max_size=4).map("/".join)


def add(path: str, mode: str = "100644") -> Change:
    return Change(path, "A", "000000", mode)


def rules(changes: list[Change], allowed: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> list[str]:
    return [
        each.rule for each in violations(changes, allowed=allowed, forbidden=forbidden, protected=PROTECTED)
    ]


def reference(pattern: str) -> re.Pattern[str]:
    """The same language by a slow and plain translation."""
    segments = pattern.split("/")
    text = ""
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            text += "[^/]+(?:/[^/]+)*" if last else "(?:[^/]+/)*"
            continue
        for char in segment:
            text += {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))
        text += "" if not last else ("" if set(segment) & set("*?") else "(?:/.+)?")
        text += "" if last else "/"
    return re.compile(text)


@given(GLOB, PATH)
def test_a_glob_means_what_the_plain_translation_means(pattern: str, path: str) -> None:
    assert matches(pattern, path) == (reference(pattern).fullmatch(path) is not None)


@given(PATH)
def test_a_plain_path_covers_itself_and_all_below(path: str) -> None:
    assert matches(path, path)
    assert matches(path, path + "/x/y")
    assert not matches(path, path + "x")


@given(PATH, st.lists(GLOB, max_size=3))
def test_nothing_allows_a_protected_path(path: str, allowed: list[str]) -> None:
    change = add(f"{path}/.git/{path}")
    assert rules([change], ("**", *allowed)) == ["protected"]


@given(PATH, st.lists(GLOB, max_size=3), st.lists(GLOB, max_size=3))
def test_more_forbidden_never_permits_more(path: str, one: list[str], more: list[str]) -> None:
    if rules([add(path)], forbidden=tuple(one)):
        assert rules([add(path)], forbidden=(*one, *more))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src", "src/a/b.py", True),
        ("src", "srcs/a.py", False),
        ("src", "lib/src/a.py", False),
        ("src/", "src/a.py", True),
        ("src/", "src", False),
        ("./src", "src/a.py", True),
        ("/src", "src/a.py", True),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("src/*/", "src/a/b", True),
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "b/c/a.py", True),
        ("src/**/test_*.py", "src/test_a.py", True),
        ("src/**/test_*.py", "src/x/y/test_a.py", True),
        ("src/**", "src", False),
        ("**", "a/b", True),
        ("[a-c].py", "b.py", True),
        ("[!a-c].py", "b.py", False),
        ("[^a-c].py", "d.py", True),
        ("[]x].py", "].py", True),
        ("a[b", "a[b", True),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
        ("", "a", False),
        ("/", "a", True),
        ("package.json", "package.json", True),
    ],
)
def test_glob_table(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_the_rules_in_their_order() -> None:
    changes = [
        add("src/ok.py"),
        add("docs/x.md"),
        add("src/secret/key"),
        add(".sf/config.toml"),
        add(".gitmodules"),
        add(".GIT/config"),
        add("vendor/.git"),
        add("src/sub", "160000"),
        add("src/link", "120000"),
        add("src/../x"),
    ]
    assert [(v.path, v.rule) for v in violations(changes, allowed=["src"], forbidden=["src/secret"])] == [
        ("docs/x.md", "outside"),
        ("src/secret/key", "forbidden"),
        (".sf/config.toml", "protected"),
        (".gitmodules", "protected"),
        (".GIT/config", "protected"),
        ("vendor/.git", "protected"),
        ("src/sub", "gitlink"),
        ("src/link", "symlink"),
        ("src/../x", "malformed"),
    ]


def test_a_symlink_needs_its_exact_path() -> None:
    assert rules([add("src/link", "120000")], ("src", "src/link")) == []
    assert rules([add("link", "120000")]) == ["symlink"]
    retargeted = Change("src/link", "M", "120000", "120000")
    assert rules([retargeted], ("src",)) == ["symlink"]
    removed = Change("src/link", "D", "120000", "000000")
    assert rules([removed], ("src",)) == []


def test_the_executable_bit_may_change_and_a_gitlink_may_not_be_removed() -> None:
    assert rules([Change("run.sh", "M", "100644", "100755")]) == []
    assert rules([Change("sub", "D", "160000", "000000")]) == ["gitlink"]


def test_empty_allowed_means_everything_else() -> None:
    assert rules([add("any/where.txt")]) == []
    assert rules([add("any/where.txt")], forbidden=("any/**",)) == ["forbidden"]


def test_a_hostile_pattern_costs_little() -> None:
    began = time.monotonic()
    matches("/".join(["**", "*a*a*a*a*a*a*a*b"] * 10), "/".join(["a" * 100] * 30))
    assert time.monotonic() - began < 2
