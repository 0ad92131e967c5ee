"""The formulas of maturity, decay, tiers and warnings."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singularity_memory import bm25, decay, maturity, standing
from singularity_memory.standing import DAY, Standing

NOW = 1_700_000_000.0


def history(**more: float) -> Standing:
    base: dict[str, float] = {"created_at": NOW, "updated_at": NOW, "fresh_at": NOW}
    return Standing(**(base | more))  # type: ignore[arg-type]


@pytest.mark.conforms("K-05")
@pytest.mark.parametrize(
    ("confidence", "days"), [(0.0, 45.0), (0.5, 90.0), (1.0, 135.0), (-3, 45.0), (7, 135.0)]
)
def test_half_life(confidence: float, days: float) -> None:
    assert decay.half_life(confidence) == days


@pytest.mark.conforms("K-05")
@given(st.floats(0, 4000), st.integers(0, 50), st.integers(0, 50))
def test_decay_is_the_formula(days: float, helpful: int, harmful: int) -> None:
    one = history(fresh_at=NOW - days * DAY, helpful=helpful, harmful=harmful)
    confidence = (helpful + 1) / (helpful + harmful + 2)
    expected = 0.5 ** (days / (90 * (0.5 + confidence)))
    assert decay.factor(one, negative=False, now=NOW) == pytest.approx(expected, rel=1e-6)
    assert decay.factor(one, negative=True, now=NOW) == 1.0


@pytest.mark.conforms("K-05")
def test_ten_accesses_give_a_buffer_of_seven_days() -> None:
    old = history(fresh_at=NOW - 20 * DAY, accesses=9)
    assert decay.age(old, NOW) == pytest.approx(20)
    used = history(fresh_at=NOW - 20 * DAY, accesses=10)
    assert decay.age(used, NOW) == pytest.approx(13)
    assert decay.age(history(fresh_at=NOW - 5 * DAY, accesses=10), NOW) == 0


def test_a_clock_that_was_set_back_does_not_make_a_score_grow() -> None:
    assert decay.factor(history(fresh_at=NOW + 9 * DAY), negative=False, now=NOW) == 1.0


@pytest.mark.parametrize(
    ("days", "tier"), [(0, "hot"), (7, "hot"), (7.1, "warm"), (30, "warm"), (30.1, "cold"), (400, "cold")]
)
def test_tiers(days: float, tier: str) -> None:
    then = NOW - days * DAY
    assert decay.tier(history(created_at=then), NOW) == tier
    assert decay.tier(history(created_at=NOW - 900 * DAY, accessed_at=then), NOW) == tier


@pytest.mark.conforms("K-04")
@pytest.mark.parametrize(
    ("observations", "helpful", "harmful", "score", "state", "weight"),
    [
        (1, 0, 0, 0, "candidate", 0.5),
        (2, 0, 2, 0, "candidate", 0.5),
        (3, 0, 0, 0, "established", 1.0),
        (3, 2, 1, 2, "deprecated", 0.0),
        (4, 3, 1, 3, "established", 1.0),
        (10, 7, 3, 7, "established", 1.0),
        (10, 6, 4, 6, "deprecated", 0.0),
        (6, 5, 0, 5.0, "proven", 1.5),
        (6, 5, 0, 4.99, "established", 1.0),
        (20, 17, 3, 17, "established", 1.0),
        (21, 18, 3, 18, "proven", 1.5),
    ],
)
def test_states(
    observations: int, helpful: int, harmful: int, score: float, state: str, weight: float
) -> None:
    one = history(
        observations=observations, helpful=helpful, harmful=harmful, helpful_score=score, helpful_at=NOW
    )
    found = maturity.maturity(one, negative=False, now=NOW)
    assert (found, maturity.WEIGHTS[found]) == (state, weight)


@pytest.mark.conforms("K-04")
def test_being_negative_comes_before_every_other_rule() -> None:
    worst = history(observations=50, harmful=50)
    found = maturity.maturity(worst, negative=True, now=NOW)
    assert (found, maturity.WEIGHTS[found]) == ("negative", 1.0)


def test_a_proven_entry_fades_to_established() -> None:
    one = history(observations=6, helpful=5, helpful_score=5.0, helpful_at=NOW)
    assert maturity.maturity(one, negative=False, now=NOW) == "proven"
    assert maturity.maturity(one, negative=False, now=NOW + DAY) == "established"


@given(st.lists(st.floats(0, 400), min_size=1, max_size=20))
def test_the_helpful_score_is_the_sum_of_what_each_time_is_still_worth(gaps: list[float]) -> None:
    one, now, times = standing.born(NOW), NOW, []
    for gap in gaps:
        now += gap * DAY
        one = standing.helped(one, now)
        times.append(now)
    expected = math.fsum(0.5 ** ((now - then) / DAY / 90) for then in times)
    assert standing.faded_score(one, now) == pytest.approx(expected, rel=1e-6)
    assert (one.helpful, one.observations, one.fresh_at) == (len(gaps), len(gaps) + 1, now)


def test_events_change_what_they_should_and_nothing_else() -> None:
    one = standing.born(NOW)
    later = NOW + DAY
    assert standing.harmed(one) == history(observations=2, harmful=1)
    assert standing.validated(one, later) == history(fresh_at=later)
    assert standing.seen_again(one, later) == history(observations=2, updated_at=later, fresh_at=later)
    assert standing.accessed(one, 3, later) == history(accesses=3, accessed_at=later)
    assert one.confidence == 0.5


@pytest.mark.conforms("K-04")
def test_three_failed_uses_make_a_warning_once() -> None:
    one = standing.born(NOW)
    verdicts = []
    for _ in range(4):
        one = standing.harmed(one)
        verdicts.append(maturity.is_to_avoid(one))
    assert verdicts == [False, False, True, True]
    assert maturity.as_warning(maturity.as_warning("do x")) == "AVOID: do x"


@given(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=60), st.integers(1, 26))
def test_many_words_of_a_query_are_counted_as_few_are(cut: list[str], count: int) -> None:
    weighted = dict.fromkeys("abcdefghijklmnopqrstuvwxyz"[:count], 1.0)
    found = bm25.score(" ".join(cut), weighted, 20.0)
    alone = [bm25.score(" ".join(cut), {term: 1.0}, 20.0).score for term in weighted]
    assert found.score == pytest.approx(sum(alone))
    assert found.matched == tuple(term for term in weighted if term in cut)


def test_a_long_query_on_a_long_entry_is_scored_in_time() -> None:
    words = " ".join(f"w{number}" for number in range(20_000))
    begun = time.process_time()
    bm25.score(words, {f"v{number}": 1.0 for number in range(10_000)}, 60.0)
    assert time.process_time() - begun < 0.5
