"""What counts as a test: a file by its name or its folder, and a test that stands among the code it proves.

It is a floor, with gates and review above it: where a name leaves it open it counts, since work that is
refused for its layout is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import splitext

WHAT_COUNTS = (
    "What counts: a file named as a test (test_a.py, a_test.go, a.test.ts, ATest.java, a_spec.rb, tests.py, "
    "a.bats, a.t …), a file in a folder for tests (tests/, spec/, __tests__/, e2e/, Foo.Tests/ …) that is "
    "neither a document nor a fixture, or a new test inside a source file, where the language has such "
    '(#[test] in Rust, test "…" in Zig, TEST_CASE in C++ …).'
)
"""For whoever is told that none was found."""

_FOLDER = re.compile(
    r"(?:.*[-_. ])?(?:tests?|specs?|e2e|test[-_]?(?:suites?|cases?)|(?:unit|integration)tests?)",
    re.IGNORECASE,
)
_CASED_FOLDER = re.compile(r".*[A-Za-z0-9](?:Tests?|Specs?)|x?t")
_STEM = re.compile(r"tests?|tests?[-_].+|.+[-_.](?:tests?|cy|e2e)", re.IGNORECASE)
_CASED_STEM = re.compile(r"Tests?[A-Z0-9].*|.*[A-Za-z0-9](?:Tests?|TestCase)")
_NAME = re.compile(
    r"(?:.+[-_.])?specs?\.(?:rb|cr|py|lua|moon|el|sh|php|[cm]?[jt]sx?|coffee)"
    r"|.*Specs?\.(?:hs|purs|scala|kt|groovy|swift|php|[cm]?[jt]sx?)"
    r"|.*Suite\.scala|.+_SUITE\.erl|.*Cest\.php|.*(?:[a-z0-9]|^[A-Z])IT\.(?:java|kt|groovy|scala)"
)
"""Names that are those of tests in some languages only."""
_ENDINGS = frozenset((".t", ".bats", ".feature", ".robot", ".phpt", ".slt"))
"""Endings that only tests have."""
_DATA = frozenset(
    (".txt", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".csv", ".tsv", ".html", ".htm", ".css")
)
"""What may be a case in a folder for tests, and is no test elsewhere."""
_NEVER = frozenset(
    (
        *(".md", ".markdown", ".rst", ".adoc", ".pdf", ".ini", ".cfg", ".conf", ".lock", ".log", ".map"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp", ".mp3", ".mp4", ".wav", ".ttf", ".woff"),
        *(
            ".zip",
            ".gz",
            ".tar",
            ".xz",
            ".bz2",
            ".jar",
            ".bin",
            ".dat",
            ".db",
            ".sqlite",
            ".so",
            ".o",
            ".pyc",
        ),
    )
)
_NEVER_NAMED = frozenset(("readme", "license", "makefile", "dockerfile", "cmakelists.txt", "package.json"))
_FIXTURE = frozenset(
    (
        *("data", "testdata", "fixture", "fixtures", "mock", "mocks", "stub", "stubs"),
        *("sample", "samples", "resources", "assets"),
    )
)

_CALLED = re.compile(r"\bimport\.meta\.vitest\b|^\s*(?:test|it)(?:\.\w+)?\(\s*[\"'`]")
_ATTRIBUTED = re.compile(r"@(?:\w*Test|TestFactory)\b")
_MARKED = re.compile(r"\[<?\s*(?:Fact|Theory|Test|TestCase|TestMethod|Property)\b")
_MACROS = re.compile(r"\b(?:TEST(?:_F|_P|_CASE)?|SCENARIO|BOOST_\w*TEST_CASE|START_TEST)\s*\(")
_RUST = re.compile(
    r"#\[\s*(?:\w+::)*(?:test|rstest|test_case|quickcheck|proptest|wasm_bindgen_test)\b"
    r"|#\[\s*cfg\(\s*(?:all\(\s*)?test\b|\bproptest!"
)
_INLINE = {
    ".rs": _RUST,
    ".zig": re.compile(r'^\s*test\s*(?:"|\w*\s*\{)'),
    ".d": re.compile(r"\bunittest\b"),
    ".py": re.compile(r"^\s*(?:async\s+)?def test_?\w*\("),
    ".rb": re.compile(r"^\s*def test_\w+"),
    ".ml": re.compile(r"\blet%(?:test|expect_test)"),
    ".erl": re.compile(r"^\w+_test_?\(\)\s*->"),
    ".rkt": re.compile(r"\(module\+ test\b"),
    ".clj": re.compile(r"\(deftest\b"),
    ".el": re.compile(r"\(ert-deftest\b"),
    ".jl": re.compile(r"@test(?:set)?\b"),
    ".nim": re.compile(r"^\s*(?:suite|test)\s+\""),
    ".v": re.compile(r"^\s*fn test_\w+\("),
    ".swift": re.compile(r"@Test\b|\bfunc test\w*\("),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), _CALLED),
    **dict.fromkeys((".java", ".kt", ".kts", ".scala", ".groovy"), _ATTRIBUTED),
    **dict.fromkeys((".cs", ".fs", ".vb", ".php"), _MARKED),
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hh"), _MACROS),
}


def is_test(path: str) -> bool:
    """Whether a file is a test: by its name anywhere, or because it lies in a folder for tests."""
    *folders, name = path.split("/")
    stem, ending = splitext(name)
    if name.startswith(".") or ending.lower() in _NEVER or name.lower() in _NEVER_NAMED:
        return False
    inside = any(is_test_folder(part) for part in folders)
    if ending.lower() in _DATA:
        return inside and _FIXTURE.isdisjoint(_words([*folders, stem]))
    return inside or is_test_name(name)


def is_test_folder(part: str) -> bool:
    """Whether a folder of this name is one for tests."""
    part = part.strip("_")
    return bool(_FOLDER.fullmatch(part) or _CASED_FOLDER.fullmatch(part))


def is_test_name(name: str) -> bool:
    """Whether a file's name, without its folders, is that of a test."""
    stem, ending = splitext(name)
    by_stem = _STEM.fullmatch(stem) or _CASED_STEM.fullmatch(stem)
    return ending in _ENDINGS or bool(by_stem or _NAME.fullmatch(name))


def may_hold_tests(path: str) -> bool:
    """Whether a source file is in a language in which tests may stand among the code."""
    return splitext(path)[1] in _INLINE


def adds_test(path: str, added: Iterable[str]) -> bool:
    """Whether one of the lines that were added to a source file begins a test."""
    begins = _INLINE.get(splitext(path)[1])
    return begins is not None and any(begins.search(line) for line in added)


def _words(parts: Iterable[str]) -> set[str]:
    return {word for part in parts for word in re.split(r"[-_. ]+", part.lower())}
