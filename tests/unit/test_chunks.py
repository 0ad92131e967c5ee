"""Cutting a diff for reviewers: whole files, in order, nothing lost, at most so many lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sf.review.chunks import REVIEW_CHUNK_LINES, FileDiff, chunks, outline, split

FILES = st.lists(
    st.builds(
        lambda number, lines: f"diff --git a/f{number} b/f{number}\n" + "+x\n" * lines,
        st.integers(0, 99),
        st.integers(0, 40),
    ),
    max_size=15,
)


@given(FILES)
def test_splitting_loses_nothing(parts: list[str]) -> None:
    files = split("".join(parts))
    assert "".join(file.text for file in files) == "".join(parts)
    assert [file.text for file in files] == parts
    assert all(file.path.startswith("f") for file in files)


@given(FILES, st.integers(5, 60))
def test_chunks_keep_the_order_and_the_limit(parts: list[str], most: int) -> None:
    packed = chunks(split("".join(parts)), most)
    assert [file.text for chunk in packed for file in chunk] == parts
    for chunk in packed:
        assert chunk
        assert sum(file.lines for file in chunk) <= most or len(chunk) == 1


def test_the_limit_is_three_hundred_lines() -> None:
    assert REVIEW_CHUNK_LINES == 300
    small = [FileDiff(str(number), "x\n" * 100) for number in range(7)]
    assert [len(chunk) for chunk in chunks(small)] == [3, 3, 1]


def test_the_outline_shows_both_ends_of_a_long_file() -> None:
    text = outline([FileDiff("a", "".join(f"line {n}\n" for n in range(100)))])
    assert "line 0\n" in text
    assert "line 99" in text
    assert "line 50\n" not in text
    assert "[60 lines]" in text
