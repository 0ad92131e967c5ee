"""Which words of a query are looked up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from singularity_memory.effort import EFFORTS, HURRIED, Effort, choose

SMALL = Effort(pool=10, ranked=50, scanned=100)


def test_the_rarest_words_come_first_and_common_ones_are_left_out() -> None:
    frequencies = {"the": 900, "parser": 40, "tabs": 5, "file": 70}
    chosen = choose(dict.fromkeys(frequencies, 1.0), frequencies, SMALL)
    assert (list(chosen.weighted), chosen.ranked) == (["tabs", "parser"], True)


def test_a_query_of_common_words_still_looks_one_up() -> None:
    chosen = choose({"the": 0.1, "of": 0.2}, {"the": 900, "of": 800}, SMALL)
    assert (list(chosen.weighted), chosen.ranked) == (["of"], False)


def test_words_that_no_entry_has_are_not_looked_up() -> None:
    assert choose({"unheard": 9.0}, {}, SMALL).weighted == {}


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 2_000_000), max_size=12))
def test_more_effort_looks_up_at_least_the_same_words(frequencies: dict[str, int]) -> None:
    weights = dict.fromkeys(frequencies, 1.0)
    hurried, fast, accurate = (
        set(choose(weights, frequencies, effort).weighted)
        for effort in (HURRIED, EFFORTS["fast"], EFFORTS["accurate"])
    )
    assert hurried <= fast <= accurate
