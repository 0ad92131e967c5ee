"""Unified diffs: what difflib makes is what apply_patch applies."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sf.tools.patches import BadPatch, parse

LINES = st.lists(
    st.text("ab-+@\\ #\t", max_size=5)
    | st.sampled_from(["-- a comment", "++ more", "@@ -1 +1 @@", "diff x", ""]),
    max_size=12,
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + ("\n" if lines and end else ""), LINES, st.booleans())


def lines_of(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def diff(old: str, new: str, *, context: int = 3, names: tuple[str, str] = ("a/f.txt", "b/f.txt")) -> str:
    out = []
    for line in difflib.unified_diff(lines_of(old), lines_of(new), *names, n=context):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


@settings(max_examples=400)
@given(TEXTS, TEXTS, st.sampled_from([0, 1, 3]))
def test_applying_a_diff_gives_the_new_text(old: str, new: str, context: int) -> None:
    text = diff(old, new, context=context)
    if not text:
        return
    (patch,) = parse(text)
    assert patch.path == "f.txt"
    assert patch.apply(old) == new


@given(TEXTS, TEXTS, TEXTS)
def test_two_files_in_one_patch_are_told_apart(old: str, new: str, other: str) -> None:
    first = diff(old, new)
    second = diff(
        other, other + "x\n" if other.endswith("\n") or not other else other + "\nx\n", names=("a/g", "b/g")
    )
    if not first:
        return
    patches = parse(first + second)
    assert [patch.path for patch in patches] == ["f.txt", "g"]
    assert patches[0].apply(old) == new


def test_a_deleted_comment_of_sql_is_not_taken_for_a_header() -> None:
    old = "select 1;\n-- the old way\nselect 2;\n"
    new = "select 1;\nselect 2;\n"
    (patch,) = parse(diff(old, new))
    assert patch.apply(old) == new


def test_a_hunk_is_found_where_its_lines_are_when_its_numbers_are_wrong() -> None:
    old = "".join(f"line {number}\n" for number in range(20))
    text = "--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n line 14\n-line 15\n+LINE 15\n"
    (patch,) = parse(text)
    assert patch.apply(old) == old.replace("line 15\n", "LINE 15\n")


def test_files_are_created_and_deleted() -> None:
    (created,) = parse(diff("", "new\n", names=("/dev/null", "b/f")))
    assert created.creates
    assert created.apply("") == "new\n"
    (deleted,) = parse(diff("old\n", "", names=("a/f", "/dev/null")))
    assert deleted.deletes
    assert (deleted.path, deleted.apply("old\n")) == ("f", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words",
        "@@ -1 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n",
        "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ nonsense @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\nwhat is this\n",
    ],
)
def test_what_is_no_patch_is_refused(text: str) -> None:
    with pytest.raises(BadPatch):
        parse(text)


def test_a_hunk_that_does_not_fit_is_refused() -> None:
    (patch,) = parse("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-something else\n+b\n")
    with pytest.raises(BadPatch, match="does not fit"):
        patch.apply("a\n")
