"""The engine as a caller sees it, on a file and with the static model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singularity_memory.effort import EFFORTS
from singularity_memory.embedders.static import StaticEmbedder
from singularity_memory.engine import Engine
from singularity_memory.errors import BadRequest, UnknownEntry
from singularity_memory.model import ANTI_PATTERN_TAGS, Draft, Query

BANK = "project/0123456789abcdef"
DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def static() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, static: StaticEmbedder, clock: Clock) -> Iterator[Engine]:
    with Engine.open(tmp_path / "memory.db", embedder=static, clock=clock, renew=False) as made:
        yield made


PARSER = "The parser in src/app/parse_config.py fails on tabs in the header"
TESTS = "Run the test suite with two workers, or the database tests collide"
DEPLOY = "Deployments need the staging certificate renewed every ninety days"


def ask(engine: Engine, text: str, **more: object) -> list[str]:
    return [hit.content for hit in engine.recall(Query(BANK, text, **more)).entries]  # type: ignore[arg-type]


def test_what_is_retained_is_recalled_by_its_names_and_by_its_meaning(engine: Engine) -> None:
    engine.retain(BANK, [Draft(PARSER), Draft(TESTS), Draft(DEPLOY)])
    assert ask(engine, "parseConfig")[0] == PARSER
    assert ask(engine, "how do I execute the tests?")[0] == TESTS
    assert ask(engine, "releasing to production, TLS expiry")[0] == DEPLOY


def test_a_result_explains_its_score(engine: Engine) -> None:
    engine.retain(BANK, [Draft(PARSER), Draft(TESTS)])
    (best, *_) = engine.recall(Query(BANK, "parse_config tabs")).entries
    why = best.explanation
    assert best.score == pytest.approx(why.fused * why.maturity_weight * why.decay)
    assert (why.lexical_rank, why.semantic_rank, why.maturity, why.negative) == (1, 1, "candidate", False)
    assert "parse_config" in why.matched


def test_the_same_content_is_one_entry_and_an_update(engine: Engine) -> None:
    (first,) = engine.retain(BANK, [Draft(PARSER)])
    (second,) = engine.retain(BANK, [Draft(PARSER + "  \r\n")])
    assert (first.status, second.status) == ("stored", "updated")
    assert first.id == second.id
    assert engine.health().entries == 1


def test_a_document_with_a_name_of_its_own_is_overwritten(engine: Engine) -> None:
    engine.retain(BANK, [Draft(PARSER, document_id="note")])
    engine.retain(BANK, [Draft(TESTS, document_id="note")])
    (hit,) = engine.recall(Query(BANK, "parse_config or test workers")).entries
    assert (hit.content, "parse_config" in hit.explanation.matched) == (TESTS, False)


def test_refusals_have_a_reason_and_leave_the_rest_alone(engine: Engine) -> None:
    answers = engine.retain(BANK, [Draft("  "), Draft(PARSER), Draft(PARSER)])
    assert [answer.status for answer in answers] == ["refused", "stored", "refused"]
    assert answers[0].reason == "empty"
    assert "duplicate" in answers[2].reason


def test_banks_are_apart(engine: Engine) -> None:
    engine.retain(BANK, [Draft(PARSER)])
    engine.retain("global/coding", [Draft(TESTS)])
    assert ask(engine, "tests") == [PARSER]
    assert [(bank.bank, bank.entries) for bank in engine.banks()] == [("global/coding", 1), (BANK, 1)]


def test_filters_match_tags_and_metadata(engine: Engine) -> None:
    engine.retain(
        BANK,
        [
            Draft(PARSER, tags=("collection:anti_patterns", "is_negative:true")),
            Draft(TESTS, metadata={"kind": "habit", "weight": 3}),
            Draft(DEPLOY, tags=("kind:habit", "urgent")),
        ],
    )
    assert ask(engine, "tests", filter={"collection": "anti_patterns"}) == [PARSER]
    assert set(ask(engine, "tests", filter={"kind": "habit"})) == {TESTS, DEPLOY}
    assert ask(engine, "tests", filter={"tags": ["kind:habit", "urgent"]}) == [DEPLOY]
    assert ask(engine, "tests", filter={"weight": 3}) == [TESTS]
    assert ask(engine, "tests", filter={"kind": "nothing"}) == []


@pytest.mark.conforms("K-04")
def test_the_third_failed_use_makes_a_warning(engine: Engine) -> None:
    (kept,) = engine.retain(BANK, [Draft(PARSER)])
    for _ in range(2):
        engine.feedback(kept.id, -1)
    assert ask(engine, "parser") == [], "deprecated: excluded"
    engine.feedback(kept.id, -1)
    (hit,) = engine.recall(Query(BANK, "parser", filter={"is_negative": True})).entries
    assert hit.content == "AVOID: " + PARSER
    assert (hit.explanation.maturity, hit.explanation.maturity_weight, hit.explanation.decay) == (
        "negative",
        1,
        1,
    )
    engine.retain(BANK, [Draft(PARSER)])
    assert ask(engine, "parser") == ["AVOID: " + PARSER], "retaining it again does not make it good"


@pytest.mark.conforms("K-03")
def test_anti_patterns_never_decay_and_the_rest_does(engine: Engine, clock: Clock) -> None:
    engine.retain(BANK, [Draft(PARSER), Draft(TESTS, tags=ANTI_PATTERN_TAGS)])
    clock.now += 90 * DAY
    by_content = {hit.content: hit.explanation for hit in engine.recall(Query(BANK, "parser tests")).entries}
    assert by_content[PARSER].decay == pytest.approx(0.5)
    assert (by_content[TESTS].decay, by_content[TESTS].maturity_weight) == (1.0, 1.0)


@pytest.mark.conforms("K-05")
@pytest.mark.parametrize("how", ["helped", "validated"])
def test_what_helps_or_is_validated_is_fresh_again(engine: Engine, clock: Clock, how: str) -> None:
    (kept,) = engine.retain(BANK, [Draft(PARSER)])
    clock.now += 90 * DAY
    if how == "helped":
        engine.feedback(kept.id, 1)
    else:
        engine.validate(kept.id)
    assert engine.recall(Query(BANK, "parser")).entries[0].explanation.decay == 1.0


def test_recalls_count_as_accesses(tmp_path: Path, static: StaticEmbedder, clock: Clock) -> None:
    with Engine.open(tmp_path / "memory.db", embedder=static, clock=clock, renew=False) as engine:
        engine.retain(BANK, [Draft(PARSER)])
        for _ in range(10):
            engine.recall(Query(BANK, "parser"))
    clock.now += 7 * DAY
    with Engine.open(tmp_path / "memory.db", embedder=static, clock=clock, renew=False) as engine:
        assert engine.recall(Query(BANK, "parser")).entries[0].explanation.decay == 1.0, (
            "the buffer of seven days"
        )


def test_forgetting_by_id_by_document_and_by_filter(engine: Engine) -> None:
    kept = engine.retain(BANK, [Draft(PARSER), Draft(TESTS), Draft(DEPLOY, tags=("old",))])
    assert engine.forget(BANK, ids=[kept[0].id]) == 1
    assert engine.forget(BANK, document_ids=[kept[1].document_id]) == 1
    assert engine.forget(BANK, filter={"tags": ["old"]}) == 1
    assert ask(engine, "parser tests deployments") == []
    assert engine.forget("no/such/bank", ids=["x"]) == 0
    with pytest.raises(BadRequest):
        engine.forget(BANK, filter={})


def test_unknown_entries_and_signals_are_mistakes(engine: Engine) -> None:
    with pytest.raises(UnknownEntry):
        engine.feedback("nothing", 1)
    with pytest.raises(UnknownEntry):
        engine.validate("nothing")
    with pytest.raises(BadRequest):
        engine.feedback("nothing", 2)


def test_export_and_import_carry_history(engine: Engine) -> None:
    (kept,) = engine.retain(BANK, [Draft(PARSER, tags=("a",), metadata={"b": 1})])
    engine.feedback(kept.id, 1)
    exported = list(engine.export(BANK))
    (back,) = engine.import_("copy", exported)
    assert back.status == "stored"
    assert list(engine.export("copy")) == exported
    assert engine.refresh() == 1, "vectors are made anew"
    assert engine.refresh() == 0
    assert engine.recall(Query("copy", "parser")).entries[0].explanation.similarity is not None


def test_a_deadline_that_has_passed_gives_what_there_is(engine: Engine) -> None:
    engine.retain(BANK, [Draft(PARSER)])
    answer = engine.recall(Query(BANK, "parser", deadline_ms=0))
    assert [hit.content for hit in answer.entries] == [PARSER]
    assert answer.degraded
    assert answer.reason.startswith("lexical only")


def test_without_an_embedder_words_still_find(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "memory.db", embedder="none", renew=False) as engine:
        engine.retain(BANK, [Draft(PARSER), Draft(TESTS)])
        answer = engine.recall(Query(BANK, "parse_config"))
    assert (answer.entries[0].content, answer.degraded) == (PARSER, True)


def test_another_process_is_seen(tmp_path: Path, static: StaticEmbedder) -> None:
    with (
        Engine.open(tmp_path / "memory.db", embedder=static, renew=False) as one,
        Engine.open(tmp_path / "memory.db", embedder=static, renew=False) as other,
    ):
        one.retain(BANK, [Draft(PARSER)])
        assert ask(other, "parser") == [PARSER]
        kept = one.retain(BANK, [Draft(TESTS)])
        assert ask(other, "executing tests")[0] == TESTS
        one.forget(BANK, ids=[kept[0].id])
        assert ask(other, "executing tests") == [PARSER]


def test_a_large_bank_and_little_time_give_words_only(engine: Engine) -> None:
    engine.retain(BANK, [Draft(f"lesson {number} about topic{number} and parsing") for number in range(300)])
    engine.recall(Query(BANK, "topic7"))
    quick = engine.recall(Query(BANK, "topic7", deadline_ms=2))
    assert quick.entries[0].content.startswith("lesson 7 ")
    assert quick.degraded
    slow = engine.recall(Query(BANK, "topic7", deadline_ms=5000))
    assert (slow.degraded, slow.reason) == (False, "")
    assert slow.entries[0].explanation.similarity is not None


def test_accurate_finds_at_least_what_fast_finds(engine: Engine) -> None:
    engine.retain(BANK, [Draft(f"lesson {number} about topic{number} and parsing") for number in range(300)])
    for text in ("topic250 parsing", "parsing lessons", "what was lesson 17 about"):
        fast, accurate = (
            [hit.id for hit in engine.recall(Query(BANK, text, top_k=10, rerank_quality=quality)).entries]
            for quality in EFFORTS
        )
        assert fast[0] == accurate[0]
