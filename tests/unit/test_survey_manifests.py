"""What manifests say: dependencies, entry points, commands, packages, conventions; broken ones, nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sf.survey.commands import commands_of
from sf.survey.conventions import conventions_of
from sf.survey.dependencies import dependencies_of
from sf.survey.entrypoints import entry_points
from sf.survey.history import Past
from sf.survey.stack import stack_of
from sf.survey.structure import areas_of, is_test, structure_of
from sf.survey.tree import Tree
from tests.support.repository import facts_of, tree_of

PYPROJECT = """
[project]
name = "thing"
dependencies = ["click>=8", "msgspec[toml] ~= 0.19 ; python_version > '3'", "odd @ https://user:secret@host/x.whl"]
[project.optional-dependencies]
extra = ["numpy"]
[dependency-groups]
dev = ["pytest", {include-group = "lint"}]
[project.scripts]
thing = "thing.cli:main"
[tool.poetry.dependencies]
python = "^3.11"
httpx = {version = "^0.27", optional = true}
[tool.pytest.ini_options]
[tool.ruff]
line-length = 110
[tool.mypy]
strict = true
"""
PACKAGE = {
    "name": "web",
    "bin": {"web": "./cli.js"},
    "main": "index.js",
    "scripts": {"test": "jest", "lint": "eslint .", "build": "tsc"},
    "dependencies": {"react": "^18", "private": "git+ssh://git@host/x.git"},
    "devDependencies": {"jest": "29"},
}


def told(tree: Tree) -> set[tuple[str, str, bool]]:
    return {(item.name, item.versions, item.development) for item in dependencies_of(tree)}


def test_python_dependencies(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "pyproject.toml": PYPROJECT,
            "requirements.txt": "click==8.1\n# no\n-r other.txt\nflask==3.0  # yes\nhttps://host/x.whl\n",
            "requirements/dev.in": "ruff\n",
            "requirements/dev.txt": "ruff==1\nnested==2\n",
        },
    )
    assert told(tree) == {
        ("click", ">=8", False),
        ("msgspec", "~= 0.19", False),
        ("odd", "(from an address)", False),
        ("numpy", "", True),
        ("pytest", "", True),
        ("httpx", "^0.27", False),
        ("flask", "==3.0", False),
        ("ruff", "", True),
    }
    assert "secret" not in str(dependencies_of(tree))


def test_dependencies_of_the_other_packagers(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "package.json": json.dumps(PACKAGE),
            "go.mod": "module m\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgo.org/x/c v0.1.0 // indirect\n)\n",
            "Cargo.toml": '[dependencies]\nserde = {version = "1"}\n[dev-dependencies]\nproptest = "1"\n',
            "pom.xml": "<dependencies><dependency><groupId>org.x</groupId><artifactId>y</artifactId>"
            "<version>2</version><scope>test</scope></dependency></dependencies>",
            "app/build.gradle": "  implementation 'com.x:y:1.0'\n  testImplementation(\"j:u:5\")\n",
            "Gemfile": "gem 'rails', '~> 7'\n# gem 'no'\n",
            "composer.json": '{"require": {"php": "8", "a/b": "^1"}, "require-dev": {"p/u": "10"}}',
        },
    )
    assert told(tree) == {
        ("react", "^18", False),
        ("private", "(from an address)", False),
        ("jest", "29", True),
        ("github.com/a/b", "v1.2.3", False),
        ("serde", "1", False),
        ("proptest", "1", True),
        ("org.x:y", "2", True),
        ("com.x:y", "1.0", False),
        ("j:u", "5", True),
        ("rails", "~> 7", False),
        ("a/b", "^1", False),
        ("p/u", "10", True),
    }


def test_what_is_vendored_declares_nothing_for_the_project(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "third_party/x/pyproject.toml": PYPROJECT,
            "vendor/y/package.json": json.dumps(PACKAGE),
            "vendor/y/tests/test_y.py": "import pytest\n",
            "vendor/y/Dockerfile": "CMD x\n",
        },
    )
    assert dependencies_of(tree) == ()
    assert commands_of(tree) == ()
    assert entry_points(tree, {}) == ()
    assert structure_of(tree, {}).packages == ()


def test_entry_points(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "pyproject.toml": PYPROJECT,
            "setup.cfg": "[options.entry_points]\nconsole_scripts =\n    old = thing.old:main\n",
            "thing/__main__.py": "",
            "tool.py": "if __name__ == '__main__':\n    pass\n",
            "tests/test_x.py": "if __name__ == '__main__':\n    pass\n",
            "package.json": json.dumps(PACKAGE),
            "cmd/serve/main.go": "package main\nfunc main() {}\n",
            "rs/Cargo.toml": '[package]\nname = "rs"\n[[bin]]\nname = "extra"\npath = "src/extra.rs"\n',
            "rs/src/main.rs": "fn main() {}\n",
            "Dockerfile": 'FROM x\nENTRYPOINT ["thing"]\nCMD ["serve"]\n',
            "Procfile": "web: thing serve\n",
            "Makefile": "all: x\nVAR := 1\ntest:\n\ttrue\n.PHONY: all\n",
        },
    )
    found = {(item.kind, item.name, item.target) for item in entry_points(tree, facts_of(tree))}
    assert found == {
        ("command", "thing", "thing.cli:main"),
        ("command", "old", "thing.old:main"),
        ("command", "web", "./cli.js"),
        ("command", "cargo run (rs)", "rs/src/main.rs"),
        ("command", "extra", "src/extra.rs"),
        ("main", "python -m thing", "thing/__main__.py"),
        ("main", "python tool.py", "tool.py"),
        ("main", "go run ./cmd/serve", "cmd/serve/main.go"),
        ("library", "web", "index.js"),
        ("container", "ENTRYPOINT", '["thing"]'),
        ("container", "CMD", '["serve"]'),
        ("process", "web", "thing serve"),
        ("script", "npm run test", "jest"),
        ("script", "npm run lint", "eslint ."),
        ("script", "npm run build", "tsc"),
        ("target", "make all", "all"),
        ("target", "make test", "test"),
    }


@pytest.mark.parametrize(
    ("files", "tests", "lint"),
    [
        ({}, "", ""),
        ({"Makefile": "test:\n\ttrue\nlint :\n", "go.mod": "module m\n"}, "make test", "make lint"),
        ({"Makefile": "testing:\n\ttrue\ntest := 1\n"}, "", ""),
        ({"package.json": json.dumps(PACKAGE)}, "npm test --silent", "npm run lint --silent"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, "", ""),
        ({"Cargo.toml": ""}, "cargo test --offline", ""),
        ({"go.mod": ""}, "go test ./...", ""),
        ({"tests/test_a.py": "import unittest\n"}, "python3 -m unittest discover -s tests -t .", ""),
        ({"a_test.py": "", "ruff.toml": ""}, "python3 -m unittest discover", "ruff check ."),
        ({"tests/test_a.py": "import pytest\n", ".flake8": ""}, "python3 -m pytest -q", "flake8"),
        ({"tests/test_a.py": "", "pyproject.toml": PYPROJECT}, "python3 -m pytest -q", "ruff check ."),
        ({"tests/test_a.py": "", "setup.cfg": "[tool:pytest]\n"}, "python3 -m pytest -q", ""),
        (
            {"Makefile": "check:\n", "tests/conftest.py": "", "tests/test_a.py": ""},
            "python3 -m pytest -q",
            "",
        ),
        ({"Makefile": "check:\n\t./configure\n", "a.c": ""}, "make check", ""),
        ({"pom.xml": "<project/>", "phpunit.xml": ""}, "", ""),
        ({"tox.ini": "[tox]\n"}, "", ""),
    ],
)
def test_the_commands_that_become_gates(files: dict[str, str], tests: str, lint: str, tmp_path: Path) -> None:
    stack = stack_of(tree_of(tmp_path, files))
    assert (stack.tests, stack.lint) == (tests, lint)


def test_gates_and_scan_agree_and_say_where_a_command_was_found(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "Makefile": "test:\n\ttrue\n",
            "pyproject.toml": PYPROJECT,
            "tests/test_a.py": "",
            "tox.ini": "[tox]\n",
            ".github/workflows/ci.yml": "steps:\n  - run: pip install x && pytest -x\n  - run: echo hello\n",
        },
    )
    found = [(item.purpose, item.command, item.found_in, item.surety) for item in commands_of(tree)]
    assert found == [
        ("test", "make test", "Makefile", "sure"),
        ("test", "python3 -m pytest -q", "pyproject.toml", "sure"),
        ("lint", "ruff check .", "pyproject.toml", "sure"),
        ("types", "mypy", "pyproject.toml", "sure"),
        ("test", "tox", "tox.ini", "guess"),
        ("test", "pip install x && pytest -x", ".github/workflows/ci.yml", "guess"),
    ]
    assert stack_of(tree).tests == found[0][1]


def test_the_structure(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "README.md": "# x\n",
            "src/thing/__init__.py": "a = 1\n" * 10,
            "src/thing/sub/__init__.py": "",
            "src/thing/setup.py": "",
            "tests/unit/test_a.py": "x\n" * 3,
            "docs/index.md": "text\n" * 100,
            "web/package.json": '{"name": "web"}',
            "web/src/a.test.ts": "",
            "pyproject.toml": PYPROJECT,
        },
    )
    found = structure_of(tree, facts_of(tree))
    assert {(folder.path, folder.files, folder.language, folder.purpose) for folder in found.folders} == {
        ("docs", 1, "Markdown", "documentation"),
        ("src", 3, "Python", ""),
        ("tests", 1, "Python", "tests"),
        ("web", 2, "TypeScript", ""),
    }
    assert {(item.path, item.name, item.kind) for item in found.packages} == {
        (".", "thing", "Python"),
        ("web", "web", "JavaScript"),
        ("src/thing", "thing", "Python package"),
    }
    assert (found.test_files, set(found.test_folders)) == (2, {"tests", "web/src"})


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("tests/helper.py", True),
        ("src/a_test.go", True),
        ("src/a.spec.tsx", True),
        ("src/main/java/XTest.java", True),
        ("tests/data.json", False),
        ("src/contest.py", False),
        ("src/testing/clock.py", False),
    ],
)
def test_what_is_a_test(name: str, is_one: bool) -> None:
    assert is_test(name) is is_one


def test_an_area_does_not_count_folders_that_hold_only_one() -> None:
    names = [
        "src/main/java/com/acme/a/X.java",
        "src/main/java/com/acme/b/c/d/e/Y.java",
        "src/main/java/com/acme/b/c/d/f/Z.java",
        "pom.xml",
    ]
    area = areas_of(names)
    assert [area(name) for name in names] == [
        "src/main/java/com/acme/a",
        "src/main/java/com/acme/b/c/d/e",
        "src/main/java/com/acme/b/c/d/f",
        "",
    ]


def test_conventions(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "pyproject.toml": PYPROJECT,
            ".pre-commit-config.yaml": "",
            "tests/test_a.py": "",
            "tests/test_b.py": "",
            ".github/workflows/ci.yml": "",
        },
    )
    assert conventions_of(tree, Past(commits=30, style="plain", typical_size=3)) == (
        "checks before each commit (pre-commit)",
        "continuous integration by GitHub Actions",
        "Ruff formats or lints Python, 110 columns",
        "mypy checks types strictly",
        "tests are named test_*.py (2, most below tests/)",
        "commit subjects are plain",
        "the median commit changes 3 files",
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", "not [ toml"),
        ("pyproject.toml", "a = " + "[" * 50_000),
        ("pyproject.toml", "project = 1\ntool = [1]\n[dependency-groups]\nx = 1\n"),
        (
            "pyproject.toml",
            "[project]\ndependencies = 1\nscripts = 'x'\nname = 2\n[tool]\nruff = 1\npoetry = 2\n",
        ),
        ("package.json", "[" * 200_000),
        ("package.json", '[1, "two"]'),
        ("package.json", '{"scripts": [1], "bin": 3, "dependencies": "x", "name": {}, "main": []}'),
        ("package.json", '{"scripts": {"test": null}, "dependencies": {"a": {"version": 1}}}'),
        ("Cargo.toml", "package = 1\nbin = 2\ndependencies = [1]\n"),
        ("Cargo.toml", "[package]\nname = 1\n[[bin]]\n"),
        ("setup.cfg", "no section\n"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts = %(x)s\n"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n a" + " " * 390_000 + "b\n"),
        ("Gemfile", "\n" * 390_000),
        ("Gemfile", "gem" + " " * 390_000),
        ("go.mod", "\n" * 390_000),
        ("go.mod", "a" * 390_000),
        ("go.mod", ("a." * 100 + "\n") * 2_000),
        ("build.gradle", "\n" * 390_000),
        ("requirements.txt", "a" + " " * 390_000),
        ("requirements.txt", "a[" * 190_000),
        (".github/workflows/ci.yml", "\n" * 390_000),
        (".github/workflows/ci.yml", "run:" + " " * 390_000),
        ("Dockerfile", "CMD\n" * 90_000),
        ("Dockerfile", "CMD" + " " * 390_000),
        ("Procfile", "\n" * 390_000),
        ("pyproject.toml", "a" + ".a" * 190_000 + " = 1"),
        ("pyproject.toml", "a = " + "1" * 390_000),
        ("composer.json", "\x00\x01"),
        ("go.mod", "\xff" * 1000),
        ("pom.xml", "<dependency>" * 20_000),
        ("build.gradle", "implementation " * 50_000),
        ("Makefile", "test" * 100_000),
    ],
)
def test_a_manifest_of_any_shape_does_no_harm(name: str, content: str, tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {name: content})
    facts = facts_of(tree)
    began = time.process_time()
    for found in (dependencies_of(tree), entry_points(tree, facts), commands_of(tree)):
        assert isinstance(found, tuple)
    structure_of(tree, facts)
    conventions_of(tree, Past())
    stack_of(tree)
    assert time.process_time() - began < 3
