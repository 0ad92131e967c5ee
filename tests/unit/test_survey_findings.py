"""Findings for a person, for a memory, and as a file."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import msgspec
import pytest

from sf.domain.past import PastCommit
from sf.survey import findings, scan
from sf.survey.crew import Examined
from sf.survey.findings import Findings
from sf.survey.found import VERSION
from sf.survey.tree import Tree
from tests.support.repository import tree_of

FILES = {
    "pyproject.toml": """
[project]
name = "thing"
dependencies = ["click"]
scripts = {thing = "thing:main"}
""",
    "Makefile": "test:\n\ttrue\n",
    "src/thing/__init__.py": "from thing.core import run\n\ndef main(): run()\n",
    "src/thing/core.py": "def run(): pass\nclass Engine: pass\n",
    "src/thing/a.py": "from thing import core\n",
    "src/thing/b.py": "from thing.core import Engine\n",
    "tests/test_core.py": "from thing.core import run\n",
    "docs/x.md": "# x\n",
    "vendor/lib.js": "x\n",
    "broken.py": "def (:\n",
    "broken_too.py": "class class\n",
}
COMMITS = [
    PastCommit("Ann", 1_750_000_000 - n * 86_400, "Change", ("src/thing/core.py", "tests/test_core.py"))
    for n in range(6)
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return tree_of(tmp_path_factory.mktemp("thing"), FILES)


@pytest.fixture(scope="module")
def found(tree: Tree) -> Findings:
    examined = asyncio.run(scan.look(tree, lambda done, total: None))
    return scan.conclude(tree, examined, COMMITS, head="c0ffee")


def test_everything_is_in_the_findings(found: Findings) -> None:
    assert (found.project, found.head, found.files) == ("thing", "c0ffee", len(FILES))
    assert found.languages[0].language == "Python"
    assert found.linkage.modules[0].path == "src/thing/core.py"
    assert found.entry_points[0].target == "thing:main"
    assert found.commands[0].command == "make test"
    assert found.dependencies[0].name == "click"
    assert found.past.pairs[0].support == 6
    assert found.left_out == {"vendored": 1}
    assert (found.broken, found.broken_files, found.trouble) == (2, ("broken.py", "broken_too.py"), ())


def test_the_summary_is_a_screenful(found: Findings) -> None:
    lines = found.summary()
    assert 12 <= len(lines) <= 40
    assert all(len(line) <= 100 and line.isprintable() for line in lines)
    text = "\n".join(lines)
    for part in (
        "thing: 11 files",
        "Python 100 %",
        "make test",
        "src/thing/core.py",
        "Ann (6)",
        "vendored 1",
    ):
        assert part in text


def test_notes_stand_by_themselves(found: Findings) -> None:
    notes = found.notes()
    assert {"overview", "structure", "entry_point", "test_command", "module", "hot_area", "co_change"} <= {
        note.kind for note in notes
    }
    assert len({note.key for note in notes}) == len(notes)
    assert all("thing" in note.text and 20 < len(note.text) < 2000 for note in notes)
    assert all(note.key.startswith(f"survey/{note.kind}/") for note in notes)
    pair = next(note for note in notes if note.kind == "co_change")
    assert pair.text.startswith("src/thing/core.py and tests/test_core.py change together: in 6 commits")


def test_the_same_tree_gives_the_same_findings_whatever_the_number_of_workers(
    tree: Tree, found: Findings
) -> None:
    for workers in (1, 3):
        examined = asyncio.run(scan.look(tree, lambda done, total: None, workers=workers))
        turned = Examined(dict(reversed(examined.facts.items())))
        assert scan.conclude(tree, turned, COMMITS, head="c0ffee") == found


def test_a_tree_of_nothing_has_findings_too(tmp_path: Path) -> None:
    tree = Tree.of(tmp_path, [])
    empty = scan.conclude(tree, asyncio.run(scan.look(tree, lambda done, total: None)), [])
    assert empty.notes() == ()
    assert len(empty.summary()) == 1


def test_findings_are_kept_privately_and_in_one_step(found: Findings, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    findings.keep(found, path)
    findings.keep(found, path)
    assert findings.kept(path) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["survey.json"]


def test_the_shape_of_this_version_is_the_golden_one(tmp_path: Path) -> None:
    golden = Path(__file__).parent.parent / "golden" / f"survey-{VERSION}.json"
    known = findings.kept(golden)
    assert known is not None
    findings.keep(known, tmp_path / "again.json")
    # A field that came, went or changed needs another version.
    assert (tmp_path / "again.json").read_bytes() == golden.read_bytes()


def test_findings_of_another_version_or_shape_are_none(found: Findings, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    assert findings.kept(path) is None
    for text in (b"", b"{}", b"[" * 100_000, b'{"project": 1}'):
        path.write_bytes(text)
        assert findings.kept(path) is None
    findings.keep(msgspec.structs.replace(found, version=2), path)
    assert findings.kept(path) is None
    link = tmp_path / "link.json"
    findings.keep(found, path)
    link.symlink_to(path)
    assert findings.kept(link) is None
