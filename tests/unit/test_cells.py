"""Text in the cells of a terminal."""

from __future__ import annotations

import pytest

from sf.surfaces.cli import cells


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("検索", 4),
        ("ｆｕ", 4),
        ("🚀", 2),
        ("a\u200db", 2),
        ("→ …", 3),
    ],
)
def test_how_many_cells_a_text_fills(text: str, expected: int) -> None:
    assert cells.width(text) == expected


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("検索機能", 8, "検索機能"),
        ("検索機能", 7, "検索機…"),
        ("検索機能", 6, "検索…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_a_text_is_cut_between_characters_and_says_so(text: str, most: int, expected: str) -> None:
    assert cells.cut(text, most) == expected
    assert cells.width(cells.padded(expected, 9)) == 9
