"""What a repository is made of: languages, and the commands that test and lint it."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath

import msgspec

_LANGUAGES = {
    ".py": "Python",
    ".js": "JavaScript",
    ".mjs": "JavaScript",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".go": "Go",
    ".rs": "Rust",
    ".java": "Java",
    ".rb": "Ruby",
    ".c": "C",
    ".cc": "C++",
    ".cpp": "C++",
    ".sh": "Shell",
}


class Stack(msgspec.Struct, frozen=True):
    """What was detected."""

    languages: tuple[str, ...]
    tests: str
    lint: str


def detect(root: Path, files: list[str]) -> Stack:
    """Look at tracked files only. An empty command means that none was recognised."""
    counts = Counter(_LANGUAGES.get(PurePosixPath(name).suffix, "") for name in files)
    counts.pop("", None)
    present = set(files)
    return Stack(
        languages=tuple(name for name, _ in counts.most_common()),
        tests=_tests(root, present),
        lint=_lint(root, present),
    )


def _tests(root: Path, files: set[str]) -> str:
    if _make_has(root, files, "test"):
        return "make test"
    script = _npm(root, files, "test")
    if script and "no test specified" not in script:
        return "npm test --silent"
    if "Cargo.toml" in files:
        return "cargo test --offline"
    if "go.mod" in files:
        return "go test ./..."
    return _python_tests(root, files)


def _python_tests(root: Path, files: set[str]) -> str:
    named = [name for name in files if re.search(r"(^|/)(test_[^/]*|[^/]*_test)\.py$", name)]
    if not named:
        return ""
    settings = _pyproject(root, files)
    uses_pytest = (
        "pytest" in settings.get("tool", {})
        or "pytest.ini" in files
        or "conftest.py" in {PurePosixPath(name).name for name in files}
    )
    imports_pytest = any(_mentions(root / name, "import pytest") for name in named[:20])
    if uses_pytest or imports_pytest:
        return "python3 -m pytest -q"
    folder = "tests" if any(name.startswith("tests/") for name in named) else "."
    return (
        f"python3 -m unittest discover -s {folder} -t ." if folder != "." else "python3 -m unittest discover"
    )


def _lint(root: Path, files: set[str]) -> str:
    if _make_has(root, files, "lint"):
        return "make lint"
    if _npm(root, files, "lint"):
        return "npm run lint --silent"
    tool = _pyproject(root, files).get("tool", {})
    if "ruff" in tool or "ruff.toml" in files:
        return "ruff check ."
    if "flake8" in tool or ".flake8" in files:
        return "flake8"
    return ""


def _make_has(root: Path, files: set[str], target: str) -> bool:
    return any(
        re.search(rf"^{target}\s*:", _text(root / name), re.MULTILINE) is not None
        for name in ("Makefile", "makefile", "GNUmakefile")
        if name in files
    )


def _npm(root: Path, files: set[str], script: str) -> str:
    if "package.json" not in files:
        return ""
    try:
        scripts = json.loads(_text(root / "package.json")).get("scripts", {})
    except (ValueError, AttributeError):
        return ""
    return str(scripts.get(script, "")) if isinstance(scripts, dict) else ""


def _pyproject(root: Path, files: set[str]) -> dict[str, dict[str, object]]:
    if "pyproject.toml" not in files:
        return {}
    try:
        return tomllib.loads(_text(root / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {}


def _mentions(path: Path, text: str) -> bool:
    return text in _text(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:200_000]
    except OSError:
        return ""
