"""Vectors in memory: what is added, replaced and removed, against a plain computation."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singularity_memory.engine import Engine
from singularity_memory.model import Draft, Query
from singularity_memory.ranking import Asked, Background, Candidate, background, fuse, lexical_weight
from singularity_memory.store import Kept
from singularity_memory.store.sqlite import SqliteStore
from singularity_memory.vectors import Vectors
from tests.support.memories import WordEmbedder

WIDTH = 8
QUERY = np.eye(WIDTH, dtype=np.float32)[0]


def of(*firsts: float) -> bytes:
    """Passages with these similarities to the query."""
    made = np.zeros((len(firsts), WIDTH), dtype=np.float16)
    made[:, 0] = firsts
    return made.tobytes()


def test_half_for_the_whole_and_half_for_the_nearest_passage() -> None:
    vectors = Vectors(WIDTH)
    vectors.put([Kept(7, of(0.5)), Kept(9, of(0.25, 0.75, 0.5)), Kept(11, of(0.75, 0.25))])
    found = vectors.nearest(QUERY, 10, None, ())
    assert found.similarities == {7: 0.5, 9: 0.5, 11: 0.75}
    assert found.nearest[0] == 11


def test_others_are_told_of_and_filters_hold() -> None:
    vectors = Vectors(WIDTH)
    vectors.put([Kept(row, of(row / 16)) for row in range(1, 11)])
    found = vectors.nearest(QUERY, 2, [1, 2, 3], (9, 99))
    assert found.nearest == [3, 2]
    assert found.similarities == {3: 3 / 16, 2: 2 / 16, 9: 9 / 16}


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("put"), st.integers(1, 12), st.lists(st.integers(-8, 8), min_size=1, max_size=3)
            ),
            st.tuples(st.just("keep"), st.integers(1, 12), st.just([])),
        ),
        max_size=30,
    )
)
def test_any_sequence_gives_what_is_there(steps: list[tuple[str, int, list[int]]]) -> None:
    vectors, there = Vectors(WIDTH), dict[int, list[float]]()
    for what, row, values in steps:
        if what == "put":
            there[row] = [value / 8 for value in values]
            vectors.put([Kept(row, of(*there[row]))])
        else:
            there = {key: value for key, value in there.items() if key != row}
            vectors.keep_only(sorted(there))
    found = vectors.nearest(QUERY, 100, None, ())
    assert found.similarities == {row: (values[0] + max(values)) / 2 for row, values in there.items()}
    assert len(found.nearest) == len(there)


def test_an_empty_bank_has_a_background_and_nothing_near() -> None:
    found = Vectors(WIDTH).nearest(QUERY, 5, None, (1,))
    assert (found.similarities, found.nearest) == ({}, [])
    assert found.background.deviation > 0


# --- ranking -----------------------------------------------------------------------------------------

BEHIND = Background(0.1, 0.1)


def order(*candidates: Candidate, behind: Background | None = BEHIND) -> list[int]:
    return [one.row for one in fuse(candidates, Asked(10_000, 60.0, 0.5, behind))]


def test_a_rare_name_leads_over_a_vague_likeness_and_a_clear_likeness_over_a_common_word() -> None:
    assert order(Candidate(1, 20.0, 1.0, 0.1), Candidate(2, 0.0, 0.0, 0.4)) == [1, 2]
    assert order(Candidate(1, 2.0, 0.1, 0.1), Candidate(2, 0.0, 0.0, 0.6)) == [2, 1]


def test_an_arm_that_is_silent_leaves_the_other_ones_order() -> None:
    by_words = [Candidate(row, float(10 - row), 0.3, None) for row in range(8)]
    assert order(*by_words, behind=None) == list(range(8))
    by_meaning = [Candidate(row, 0.0, 0.0, 0.9 - row / 5) for row in range(8)]
    assert order(*by_meaning) == list(range(8)), "also among those that do not stand out"


@given(
    st.lists(
        st.tuples(st.floats(0, 60), st.floats(0, 1), st.one_of(st.none(), st.floats(-1, 1))),
        min_size=1,
        max_size=20,
    )
)
def test_scores_are_between_0_and_1_and_more_evidence_is_never_worse(
    parts: list[tuple[float, float, float | None]],
) -> None:
    candidates = [Candidate(row, *part) for row, part in enumerate(parts)]
    asked = Asked(10_000, 60.0, 0.5, BEHIND)
    fused = {one.row: one.score for one in fuse(candidates, asked)}
    assert all(0 <= score <= 1 for score in fused.values())
    better = [candidates[0]._replace(lexical=60.0, coverage=1.0, similarity=1.0), *candidates[1:]]
    assert fuse(better, asked)[0].score >= max(fused.values()) - 1e-9


def test_words_are_hardly_heard_when_no_entry_says_much_of_the_query() -> None:
    said = [Candidate(row, 12.0 if row == 0 else 2.0, 0.6 if row == 0 else 0.1, None) for row in range(12)]
    hardly = [one._replace(coverage=one.coverage / 6) for one in said]
    assert lexical_weight(hardly) < lexical_weight(said) / 4
    likely = Candidate(20, 0.0, 0.0, 0.45)
    assert order(*said, likely)[0] == 0
    assert order(*hardly, likely)[0] == 20


def test_words_are_hardly_heard_when_many_entries_have_them_alike() -> None:
    alike = [Candidate(row, 12.0, 0.6, None) for row in range(12)]
    assert lexical_weight(alike) == pytest.approx(lexical_weight(alike[:9]) / 5)
    assert lexical_weight([]) == lexical_weight([Candidate(1, 0.0, 0.0, 0.5)]) > 0


def test_of_two_like_scores_the_one_with_more_of_the_query_leads() -> None:
    assert order(Candidate(1, 10.0, 0.3, 0.2), Candidate(2, 10.0, 0.6, 0.2)) == [2, 1]


def test_the_background_of_few_entries_leans_on_what_is_usual() -> None:
    assert background(0, 0.0, 0.0) == pytest.approx((0.1, 0.12))
    many = background(100_000, 30_000.0, 10_000.0)
    assert many.mean == pytest.approx(0.3, abs=1e-3)
    assert many.deviation == pytest.approx(0.1, abs=1e-3)


# --- being read ----------------------------------------------------------------------------------------


def test_who_cannot_wait_is_answered_by_words_while_the_vectors_are_read(tmp_path: Path) -> None:
    bank = "project/one"
    texts = [f"lesson {number} about topic{number} and parsing" for number in range(500)]
    with Engine.open(tmp_path / "memory.db", embedder=WordEmbedder(), renew=False) as engine:
        engine.retain(bank, [Draft(text) for text in texts])
    with Engine.open(tmp_path / "memory.db", embedder=WordEmbedder(), renew=False) as engine:
        hasty = Query(bank, "topic7 parsing", deadline_ms=8)
        first = engine.recall(hasty)
        assert (first.entries[0].content, first.degraded) == (texts[7], True)
        until = time.monotonic() + 30
        while engine.recall(Query(bank, "topic7 parsing", deadline_ms=60)).degraded:
            assert time.monotonic() < until, "the vectors were never read"
            time.sleep(0.01)


def test_a_cache_reads_in_the_background_and_stops_when_it_is_closed(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "memory.db", embedder=WordEmbedder(), renew=False) as engine:
        engine.retain("one", [Draft("the parser fails on tabs")])
    before = set(threading.enumerate())
    store = SqliteStore(tmp_path / "memory.db")
    cache = store.meaning("words", 64)
    bank = store.bank("one")
    assert bank is not None
    assert cache.ready(bank, None)
    assert not cache.ready(bank, 1e-7)
    until = time.monotonic() + 30
    while not cache.ready(bank, 1e-7):
        assert time.monotonic() < until
        time.sleep(0.01)
    store.close()
    assert set(threading.enumerate()) <= before
