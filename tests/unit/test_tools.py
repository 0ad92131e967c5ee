"""The tools on a real folder: what they do, what they refuse, and the one shape of every answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sf.domain.dialogue import ToolCall
from sf.domain.phases import WRITING, Phase
from sf.tools.base import ToolResponse, failure, ok
from sf.tools.toolbox import CHANGING, READING, for_phase
from tests.support.conversing import caller


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (folder / "b.txt").write_text("hello\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("[core]\n")
    return folder


async def call(root: Path, tool: str, arguments: dict[str, Any] | None, phase: Phase = Phase.EXECUTE) -> Any:
    """Call a tool through the caller; the answer as the model gets it."""
    results, _ = await caller(root, phase).answer([ToolCall("1", tool, arguments)])
    assert (results[0].call_id, results[0].name) == ("1", tool)
    answer = json.loads(results[0].content)
    assert set(answer) == {"success", "output", "contentItems"}
    return answer


async def good(root: Path, tool: str, **arguments: Any) -> Any:
    answer = await call(root, tool, arguments)
    assert answer["success"], answer
    return answer


async def bad(root: Path, tool: str, **arguments: Any) -> Any:
    answer = await call(root, tool, arguments)
    assert not answer["success"], answer
    return answer


@pytest.mark.conforms("C-18")
def test_every_answer_has_the_shape_of_the_contract() -> None:
    for answer in (ok("done"), ok("done", "text"), failure("no", available=["a"]), failure("no", text="why")):
        read = json.loads(answer.response.encode())
        assert set(read) == {"success", "output", "contentItems"}
        assert all(set(item) == {"type", "text"} for item in read["contentItems"])
        assert all(item["type"] == "inputText" for item in read["contentItems"])
    assert json.loads(ToolResponse(True, "x").encode())["contentItems"] == []


@pytest.mark.conforms("C-18")
def test_long_output_is_cut_in_the_middle() -> None:
    item = ok("x", "a" * 100_000 + "END").response.content_items[0]
    assert len(item.text) < 31_000
    assert item.text.endswith("END")
    assert "truncated" in item.text


async def test_files_are_read_in_numbered_lines(root: Path) -> None:
    answer = await good(root, "read_file", path="src/a.py", start=2, lines=1)
    assert answer["output"] == "src/a.py: lines 2-2 of 3"
    assert answer["contentItems"][0]["text"] == "2\ttwo"
    await good(root, "read_file", path=str(root / "b.txt"))
    await good(root, "read_file", path="b.txt", start=99)
    await bad(root, "read_file", path="none.txt")
    await bad(root, "read_file", path="src")


async def test_files_are_listed_and_searched(root: Path) -> None:
    listed = await good(root, "list_files")
    assert listed["contentItems"][0]["text"].splitlines() == ["b.txt", "src/a.py"]
    only = await good(root, "list_files", pattern="*.py")
    assert only["contentItems"][0]["text"] == "src/a.py"
    await bad(root, "list_files", path="b.txt")
    found = await good(root, "grep", pattern="t(wo|hree)")
    assert found["contentItems"][0]["text"].splitlines() == ["./src/a.py:2:two", "./src/a.py:3:three"]
    await good(root, "grep", pattern="nowhere")
    await bad(root, "grep", pattern="(")
    await good(root, "grep", pattern="-e", path="src")


async def test_files_are_written_and_edited(root: Path) -> None:
    await good(root, "write_file", path="new/deep/file.txt", content="x\n")
    assert (root / "new/deep/file.txt").read_text() == "x\n"
    await good(root, "edit_file", path="src/a.py", old="two", new="TWO")
    assert (root / "src/a.py").read_text() == "one\nTWO\nthree\n"
    (root / "twice").write_text("a a")
    await bad(root, "edit_file", path="twice", old="a", new="b")
    await good(root, "edit_file", path="twice", old="a", new="b", every=True)
    assert (root / "twice").read_text() == "b b"
    await bad(root, "edit_file", path="twice", old="zzz", new="b")
    await bad(root, "edit_file", path="twice", old="", new="b")
    (root / "binary").write_bytes(b"\xff\xfe")
    await bad(root, "edit_file", path="binary", old="a", new="b")


async def test_a_patch_changes_several_files_or_none(root: Path) -> None:
    patch = (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
        "--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+new\n"
        "--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-hello\n"
    )
    await good(root, "apply_patch", patch=patch)
    assert (root / "src/a.py").read_text() == "one\nTWO\nthree\n"
    assert (root / "c.txt").read_text() == "new\n"
    assert not (root / "b.txt").exists()
    half = (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-one\n+ONE\n"
        "--- a/c.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-something else\n+x\n"
    )
    await bad(root, "apply_patch", patch=half)
    assert (root / "src/a.py").read_text() == "one\nTWO\nthree\n", "nothing is written unless all of it fits"
    await bad(root, "apply_patch", patch="--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+again\n")
    await bad(root, "apply_patch", patch="no patch")


async def test_a_patch_with_two_parts_for_one_file_applies_both_or_none(root: Path) -> None:
    patch = (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-one\n+ONE\n"
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -3 +3 @@\n-three\n+THREE\n"
    )
    answer = await call(root, "apply_patch", {"patch": patch})
    text = (root / "src/a.py").read_text()
    assert text == ("ONE\ntwo\nTHREE\n" if answer["success"] else "one\ntwo\nthree\n")


async def test_commands_say_their_exit_code(root: Path) -> None:
    answer = await good(root, "bash", command="cat b.txt")
    assert (answer["output"], answer["contentItems"][0]["text"]) == ("exit code 0", "hello\n")
    answer = await bad(root, "bash", command="ls none")
    assert answer["output"].startswith("exit code ")
    answer = await bad(root, "bash", command="sleep 30", timeout_seconds=1)
    assert "timed out" in answer["output"]


@pytest.mark.conforms("C-19")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("no_such_tool", {}),
        ("read_file", None),
        ("read_file", {}),
        ("read_file", {"path": "b.txt", "extra": 1}),
        ("read_file", {"path": "x" * 5000}),
        ("read_file", {"path": "nul\0byte"}),
        ("read_file", {"path": "\ud800"}),
        ("write_file", {"path": "x.txt", "content": "\ud800"}),
        ("write_file", {"path": ".", "content": "x"}),
        ("write_file", {"path": "", "content": "x"}),
        ("write_file", {"path": "b.txt/below", "content": "x"}),
        ("edit_file", {"path": "b.txt", "old": "hello", "new": "\udfff"}),
        ("apply_patch", {"patch": "--- a/\ud800\n+++ b/\ud800\n@@ -1 +1 @@\n-a\n+b\n"}),
        ("apply_patch", {"patch": "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-hello\n+\ud800\n"}),
        ("grep", {"pattern": "a\0b"}),
        ("grep", {"pattern": "\ud800"}),
        ("list_files", {"path": "src/a.py"}),
        ("bash", {"command": "x", "timeout_seconds": 0}),
        ("bash", {"command": "echo 'unclosed"}),
        ("bash", {"command": "echo \0"}),
        ("bash", {"command": "echo \ud800"}),
    ],
)
async def test_no_call_can_break_the_session(root: Path, tool: str, arguments: dict[str, Any] | None) -> None:
    try:
        answer = await call(root, tool, arguments)
    except (ValueError, OSError) as error:
        # Without a traceback: it would hold what cannot be encoded.
        pytest.fail(f"{tool} let a {type(error).__name__} through", pytrace=False)
    assert not answer["success"]
    assert answer["output"]


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "link/x", "src/../../outside"])
async def test_no_tool_leaves_the_worktree(root: Path, path: str) -> None:
    (root.parent / "outside").write_text("secret")
    (root / "link").symlink_to(root.parent)
    for tool, arguments in (
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("edit_file", {"path": path, "old": "secret", "new": "x"}),
        ("list_files", {"path": path}),
        ("grep", {"pattern": "s", "path": path}),
        ("apply_patch", {"patch": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"}),
    ):
        answer = await call(root, tool, arguments)
        assert not answer["success"], (tool, path)
    assert (root.parent / "outside").read_text() == "secret"


async def test_the_tools_work_where_the_way_to_the_worktree_is_a_link(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root.parent, target_is_directory=True)
    seen = alias / "tree"
    await good(seen, "read_file", path="b.txt")
    await good(seen, "write_file", path="src/c.py", content="x\n")
    await good(seen, "edit_file", path="src/c.py", old="x", new="y")
    await good(seen, "grep", pattern="hello", path="b.txt")
    assert (root / "src/c.py").read_text() == "y\n"


async def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    await bad(root, "read_file", path="pipe")


def test_changing_tools_are_shown_only_where_something_may_be_changed() -> None:
    for phase in Phase:
        names = set(for_phase(phase).names)
        assert {tool.name for tool in READING} <= names
        assert ({tool.name for tool in CHANGING} <= names) == (phase in WRITING)
        assert bool({tool.name for tool in CHANGING} & names) == (phase in WRITING)


def test_a_tool_is_described_by_a_schema_that_forbids_what_it_does_not_know() -> None:
    for spec in for_phase(Phase.EXECUTE).specs():
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False
