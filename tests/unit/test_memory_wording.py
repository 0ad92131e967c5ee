"""Which contents are the same but for what tells nothing, and what becomes of those on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singularity_memory.engine import Engine
from singularity_memory.model import Draft, Query
from singularity_memory.wording import wording
from tests.support.memories import Clock, WordEmbedder, memory_url

BANK = "project/one"
RULE = "Run the database tests with two workers, or they collide"


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    place = str(tmp_path / "memory.db")
    if request.param == "postgres":
        place = memory_url(request.getfixturevalue("server"))
    with Engine.open(place, embedder=WordEmbedder(), clock=Clock(), renew=False) as made:
        yield made


@pytest.mark.parametrize(
    "again",
    [
        "run the database tests with two workers, or they collide",
        "Run  the database tests\nwith two workers or they collide.",
        "«Run the database tests with two workers, or they collide!»",
        RULE + " (2026-03-01)",
        RULE + ", seen 3 May 2026",
        RULE + " - 2026-03-01T12:00:05Z",
        RULE + "; as of 1.3.2026, 12:05",
        RULE + " (3 times)",
        RULE + " [#12]",
    ],
)
def test_what_tells_nothing_is_no_difference(again: str) -> None:
    assert wording(again) == wording(RULE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The database listens on port 5432", "The database listens on port 5433"),
        ("The certificate ends on 2026-03-01", "The certificate ends on 2026-04-01"),
        ("We meet at 12:05", "We meet at 13:05"),
        ("Retry while count < 5", "Retry while count > 5"),
        ("Pass -n to the test runner", "Pass n to the test runner"),
        ("Use !important in the sheet", "Use important in the sheet"),
        ("Python 3.11 is needed", "Python 3.12 is needed"),
        ("Call foo.bar first", "Call foobar first"),
        ("The cache keeps 10 MB", "The cache keeps 100 MB"),
    ],
)
def test_numbers_and_signs_are_differences(one: str, other: str) -> None:
    assert wording(one) != wording(other)


@given(st.text(max_size=200))
def test_a_wording_is_its_own_wording_in_capitals_and_with_more_space(text: str) -> None:
    assert wording(f"  {text}\n".replace(" ", "  ")) == wording(text)


def contents(engine: Engine) -> list[str]:
    return [hit.content for hit in engine.recall(Query(BANK, RULE, top_k=10)).entries]


def test_almost_the_same_again_is_the_same_entry_in_its_newer_words(engine: Engine) -> None:
    (first,) = engine.retain(BANK, [Draft(RULE)])
    newer = RULE.lower() + " (2026-03-01)"
    (second,) = engine.retain(BANK, [Draft(newer)])
    assert (second.status, second.id, second.document_id) == ("updated", first.id, first.document_id)
    assert contents(engine) == [newer]
    (third,) = engine.retain(BANK, [Draft(newer)])
    assert (third.status, third.id) == ("updated", first.id)
    (hit,) = engine.recall(Query(BANK, RULE)).entries
    assert hit.explanation.maturity == "established", "seen three times"


def test_documents_that_were_named_stay_apart(engine: Engine) -> None:
    answers = engine.retain(BANK, [Draft(RULE, document_id="a"), Draft(RULE.lower(), document_id="b")])
    answers += engine.retain(BANK, [Draft(RULE.upper())])
    assert [answer.status for answer in answers] == ["stored"] * 3
    (same,) = engine.retain(BANK, [Draft(RULE)])
    assert (same.status, same.reason) == ("refused", "a duplicate of the document a")


def test_of_one_call_the_first_of_a_kind_is_kept(engine: Engine) -> None:
    first, second = engine.retain(BANK, [Draft(RULE), Draft(RULE + ".")])
    assert (first.status, second.status) == ("stored", "refused")
    assert contents(engine) == [RULE]


def test_a_warning_does_not_come_back_as_advice_in_other_capitals(engine: Engine) -> None:
    (kept,) = engine.retain(BANK, [Draft(RULE)])
    for _ in range(3):
        engine.feedback(kept.id, -1)
    (again,) = engine.retain(BANK, [Draft(RULE.lower() + ".")])
    assert (again.status, again.id) == ("updated", kept.id)
    assert contents(engine) == ["AVOID: " + RULE.lower() + "."]
