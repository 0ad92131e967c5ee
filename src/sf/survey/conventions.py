"""What a project has agreed on, as far as its files say so: tools, checks, tests, commits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from sf.survey.history import Past
from sf.survey.tree import Tree, table
from sf.survey.wording import shown

_MARKS = (
    (r"\.pre-commit-config\.ya?ml", "checks before each commit (pre-commit)"),
    (r"\.editorconfig", "an .editorconfig"),
    (r"\.prettierrc(\.\w+)?|prettier\.config\.\w+", "Prettier formats the code"),
    (r"\.eslintrc(\.\w+)?|eslint\.config\.\w+", "ESLint checks the code"),
    (r"tsconfig\.json", "TypeScript is configured by tsconfig.json"),
    (r"\.?rustfmt\.toml", "rustfmt has a configuration of its own"),
    (r"\.clang-format", "clang-format formats the code"),
    (r"\.rubocop\.yml", "RuboCop checks the code"),
    (r"\.github/workflows/[^/]+\.ya?ml", "continuous integration by GitHub Actions"),
    (r"\.gitlab-ci\.yml", "continuous integration by GitLab"),
    (r"\.circleci/config\.yml", "continuous integration by CircleCI"),
    (r"Jenkinsfile", "continuous integration by Jenkins"),
    (r"(Dockerfile|Containerfile)(\.\w+)?", "a container image is built"),
    (r"(docker-)?compose\.ya?ml", "services for development by compose"),
    (r"CHANGELOG(\.\w+)?", "a change log is kept"),
    (r"CONTRIBUTING(\.\w+)?", "rules for contributors are in CONTRIBUTING"),
    (r"AGENTS\.md|CLAUDE\.md|\.cursorrules", "instructions for coding agents are in the repository"),
)
_TESTS = (
    (r"(^|/)test_[^/]+\.py$", "test_*.py"),
    (r"_test\.py$", "*_test.py"),
    (r"_test\.go$", "*_test.go beside the code"),
    (r"\.test\.[cm]?[jt]sx?$", "*.test.*"),
    (r"\.spec\.[cm]?[jt]sx?$", "*.spec.*"),
    (r"_spec\.rb$", "*_spec.rb"),
    (r"Tests?\.(java|kt|cs|php)$", "*Test classes"),
)


def conventions_of(tree: Tree, past: Past) -> tuple[str, ...]:
    """Each agreement as a short phrase."""
    return tuple(dict.fromkeys((*_marks(tree), *_python(tree), *_tests(tree), *_commits(past))))


def _marks(tree: Tree) -> Iterable[str]:
    for pattern, meaning in _MARKS:
        shape = re.compile(pattern)
        if any(shape.fullmatch(name) for name in tree.own):
            yield meaning


def _python(tree: Tree) -> Iterable[str]:
    tools = table(tree.toml("pyproject.toml").get("tool"))
    for tool, meaning in (("ruff", "Ruff"), ("black", "Black")):
        length = table(tools.get(tool)).get("line-length")
        if tool in tools:
            yield f"{meaning} formats or lints Python" + (
                f", {length} columns" if type(length) is int else ""
            )
    if table(tools.get("mypy")).get("strict") is True:
        yield "mypy checks types strictly"
    elif "mypy" in tools:
        yield "mypy checks types"


def _tests(tree: Tree) -> Iterable[str]:
    found = Counter(meaning for name in tree.own for pattern, meaning in _TESTS if re.search(pattern, name))
    for meaning, count in found.most_common(2):
        if count > 1:
            homes = Counter(name.split("/", 1)[0] for name in tree.own if _is(name, meaning) and "/" in name)
            place = f", most below {shown(homes.most_common(1)[0][0])}/" if homes else ""
            yield f"tests are named {meaning} ({count}{place})"


def _is(name: str, meaning: str) -> bool:
    return any(re.search(pattern, name) for pattern, known in _TESTS if known == meaning)


def _commits(past: Past) -> Iterable[str]:
    if past.style:
        yield f"commit subjects are {past.style}"
    if past.commits >= 20 and past.typical_size:
        yield f"the median commit changes {past.typical_size} file" + ("s" if past.typical_size > 1 else "")
