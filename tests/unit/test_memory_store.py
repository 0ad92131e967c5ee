"""What every store of memories keeps: the same tests on a file and on a PostgreSQL server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from singularity_memory.engine import Engine
from singularity_memory.errors import BadRequest, UnknownEntry
from singularity_memory.model import ANTI_PATTERN_TAGS, Draft, Query, Retained
from tests.support.memories import DAY, Clock, WordEmbedder, memory_url
from tests.support.stores import Server

BANK = "project/with/slashes"
PARSER = "The parser in src/app/parse_config.py fails on tabs in the header"
TESTS = "Run the test suite with two workers, or the database tests collide"
DEPLOY = "Deployments need the staging certificate renewed every ninety days"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "memory.db")
    server: Server = request.getfixturevalue("server")
    return memory_url(server)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def engine(place: str, embedder: WordEmbedder, clock: Clock) -> Iterator[Engine]:
    with Engine.open(place, embedder=embedder, clock=clock, renew=False) as made:
        yield made


def keep(engine: Engine, *drafts: Draft | str) -> list[Retained]:
    return engine.retain(BANK, [draft if isinstance(draft, Draft) else Draft(draft) for draft in drafts])


def ask(engine: Engine, text: str, **wanted: object) -> list[str]:
    return [hit.content for hit in engine.recall(Query(BANK, text, filter=wanted)).entries]


def test_both_arms_find_and_explain(engine: Engine) -> None:
    keep(engine, PARSER, TESTS, DEPLOY)
    best = engine.recall(Query(BANK, "parse_config tabs")).entries[0]
    assert best.content == PARSER
    assert (best.explanation.lexical_rank, best.explanation.semantic_rank) == (1, 1)
    assert best.explanation.similarity is not None
    assert best.explanation.similarity > 0.2


def test_stores_score_alike(server: Server, tmp_path: Path, clock: Clock) -> None:
    scores = []
    for place in (str(tmp_path / "memory.db"), memory_url(server)):
        with Engine.open(place, embedder=WordEmbedder(), clock=clock, renew=False) as engine:
            keep(engine, PARSER, TESTS, DEPLOY)
            found = engine.recall(Query(BANK, "renewing the staging certificate before the tests"))
            scores.append([(hit.content, round(hit.score, 3)) for hit in found.entries])
    assert scores[0] == scores[1]


def test_upsert_keeps_history_and_replaces_content(engine: Engine) -> None:
    (first,) = keep(engine, Draft(PARSER, document_id="note", tags=("old",)))
    engine.feedback(first.id, 1)
    (second,) = keep(engine, Draft(TESTS, document_id="note", tags=("new",)))
    assert (second.status, second.id) == ("updated", first.id)
    assert ask(engine, "parser", tags=["old"]) == []
    (hit,) = engine.recall(Query(BANK, "tests", filter={"tags": ["new"]})).entries
    assert (hit.content, hit.explanation.maturity) == (TESTS, "established")
    assert [stats.entries for stats in engine.banks()] == [1]


def test_the_same_content_under_another_name_is_a_duplicate(engine: Engine) -> None:
    keep(engine, Draft(PARSER, document_id="first"))
    (twin,) = keep(engine, Draft(PARSER + " \n", document_id="second"))
    assert (twin.status, twin.reason) == ("refused", "a duplicate of the document first")
    (again,) = keep(engine, Draft(PARSER, document_id="first"))
    assert again.status == "updated"
    assert engine.retain("another/bank", [Draft(PARSER, document_id="second")])[0].status == "stored"


def test_filters_need_every_label(engine: Engine) -> None:
    keep(engine, Draft(PARSER, tags=("a", "b")), Draft(TESTS, tags=("a",), metadata={"n": 1, "yes": True}))
    assert set(ask(engine, "anything", tags=["a"])) == {PARSER, TESTS}
    assert ask(engine, "anything", tags=["a", "b"]) == [PARSER]
    assert ask(engine, "anything", tags=["a"], n=1, yes=True) == [TESTS]


def test_feedback_validation_and_warnings(engine: Engine, clock: Clock) -> None:
    (kept,) = keep(engine, PARSER)
    clock.now += 90 * DAY
    assert engine.recall(Query(BANK, "parser")).entries[0].explanation.decay == pytest.approx(0.5)
    engine.validate(kept.id)
    assert engine.recall(Query(BANK, "parser")).entries[0].explanation.decay == 1.0
    for _ in range(3):
        engine.feedback(kept.id, -1)
    assert ask(engine, "parser", is_negative=True) == ["AVOID: " + PARSER]
    with pytest.raises(UnknownEntry):
        engine.validate("no such entry")


def test_forgetting_takes_everything(engine: Engine) -> None:
    kept = keep(engine, PARSER, Draft(TESTS, tags=("old",)), DEPLOY)
    assert engine.forget(BANK, ids=[kept[0].id], filter={"tags": ["old"]}) == 2
    assert engine.forget(BANK, ids=[kept[0].id]) == 0
    assert ask(engine, "parser tests") == [DEPLOY]
    assert engine.health().entries == 1
    assert ask(engine, "anything", tags=["old"]) == []


def test_a_filter_that_asks_for_nothing_forgets_nothing(engine: Engine) -> None:
    keep(engine, PARSER, TESTS)
    nothing: tuple[dict[str, list[str]], ...] = ({}, {"tags": []})
    for empty in nothing:
        with pytest.raises(BadRequest, match="the whole bank"):
            engine.forget(BANK, filter=empty)
    assert engine.health().entries == 2
    assert set(ask(engine, "parser tests", tags=[])) == {PARSER, TESTS}


def test_a_filter_may_name_many_tags(engine: Engine) -> None:
    many = tuple(f"tag{number}" for number in range(64))
    keep(engine, Draft(PARSER, tags=many), Draft(TESTS, tags=many[1:]))
    assert ask(engine, "anything", tags=list(many)) == [PARSER]
    assert set(ask(engine, "parser tests", tags=list(many[1:]))) == {PARSER, TESTS}
    absent = [f"absent{number}" for number in range(3000)]
    assert ask(engine, "parser tests", tags=absent) == []
    assert engine.forget(BANK, filter={"tags": absent}) == 0
    assert engine.forget(BANK, filter={"tags": list(many)}) == 1


def test_statistics(engine: Engine, clock: Clock) -> None:
    keep(engine, PARSER, Draft(TESTS, tags=ANTI_PATTERN_TAGS))
    clock.now += 10 * DAY
    keep(engine, DEPLOY)
    (stats,) = engine.banks()
    assert (stats.bank, stats.entries, stats.negative, stats.unembedded) == (BANK, 3, 1, 0)
    assert (stats.tiers, stats.maturity) == ({"warm": 2, "hot": 1}, {"candidate": 2, "negative": 1})


def test_accesses_are_counted_when_it_closes(place: str, embedder: WordEmbedder, clock: Clock) -> None:
    with Engine.open(place, embedder=embedder, clock=clock, renew=False) as engine:
        keep(engine, PARSER)
        for _ in range(10):
            engine.recall(Query(BANK, "parser"))
    clock.now += 7 * DAY
    with Engine.open(place, embedder=embedder, clock=clock, renew=False) as engine:
        assert engine.recall(Query(BANK, "parser")).entries[0].explanation.decay == 1.0


def test_an_embedder_that_fails_keeps_nothing_out(engine: Engine, embedder: WordEmbedder) -> None:
    embedder.broken = True
    assert [one.status for one in keep(engine, PARSER)] == ["stored"]
    answer = engine.recall(Query(BANK, "parser"))
    assert ([hit.content for hit in answer.entries], answer.degraded) == ([PARSER], True)
    embedder.broken = False
    assert engine.banks()[0].unembedded == 1
    assert (engine.refresh(), engine.refresh()) == (1, 0)
    assert engine.recall(Query(BANK, "header tabs")).entries[0].explanation.similarity is not None


def test_a_change_of_model_is_noticed_and_never_mixed(place: str, embedder: WordEmbedder) -> None:
    with Engine.open(place, embedder=embedder, renew=False) as engine:
        keep(engine, PARSER, TESTS)
    with Engine.open(place, embedder=WordEmbedder("other", 32), renew=False) as engine:
        assert engine.health().unembedded == 2
        assert engine.recall(Query(BANK, "parser")).entries[0].explanation.similarity is None
        keep(engine, DEPLOY)
        while engine.refresh(1):
            pass
        assert engine.health().unembedded == 0
        found = engine.recall(Query(BANK, "parser")).entries
        assert [hit.explanation.similarity is not None for hit in found] == [True] * 3


def test_what_another_process_did_is_seen(place: str, embedder: WordEmbedder) -> None:
    with (
        Engine.open(place, embedder=embedder, renew=False) as one,
        Engine.open(place, embedder=embedder, renew=False) as other,
    ):
        keep(one, PARSER)
        assert ask(other, "parser") == [PARSER]
        kept = keep(one, TESTS)
        assert set(ask(other, "parser")) == {PARSER, TESTS}
        one.forget(BANK, ids=[kept[0].id])
        assert ask(other, "tests") == [PARSER]


def test_export_and_import(engine: Engine) -> None:
    kept = keep(engine, Draft(PARSER, tags=("a",), metadata={"b": [1, {"c": None}]}), TESTS)
    engine.feedback(kept[0].id, 1)
    exported = list(engine.export(BANK))
    assert [one.status for one in engine.import_("copy", exported)] == ["stored", "stored"]
    assert list(engine.export("copy")) == exported


def test_many_threads_lose_nothing(engine: Engine) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for index in range(10):
                keep(engine, f"worker {number} learned lesson {index} about topic{number}_{index}")
                engine.recall(Query(BANK, f"topic{number}_{index}"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert engine.health().entries == 80
    assert ask(engine, "topic3_7")[0].startswith("worker 3 learned lesson 7")


def test_a_new_model_embeds_in_the_background(place: str, embedder: WordEmbedder) -> None:
    with Engine.open(place, embedder=embedder) as engine:
        keep(engine, PARSER, TESTS)
    with Engine.open(place, embedder=WordEmbedder("other", 32)) as engine:
        until = time.monotonic() + 30
        while engine.health().unembedded and time.monotonic() < until:
            time.sleep(0.02)
        assert engine.health().unembedded == 0
        assert engine.recall(Query(BANK, "parser")).entries[0].explanation.similarity is not None


def test_what_the_embedder_missed_is_made_up_for(place: str, embedder: WordEmbedder) -> None:
    with Engine.open(place, embedder=embedder) as engine:
        (line,) = engine.import_(BANK, ['{"content": "the header parser fails on tabs"}'])
        assert line.status == "stored"
        until = time.monotonic() + 30
        while engine.health().unembedded and time.monotonic() < until:
            time.sleep(0.02)
        assert engine.recall(Query(BANK, "parser")).entries[0].explanation.similarity is not None


def test_a_closed_engine_is_not_well_and_says_so(place: str, embedder: WordEmbedder) -> None:
    engine = Engine.open(place, embedder=embedder)
    engine.close()
    health = engine.health()
    assert (health.ok, bool(health.reason)) == (False, True)
