"""Two folders that share one store: each autopilot minds its own units, and knows what the other did."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from sf.app import reports
from sf.app.compose import autopilot
from sf.app.intake import rules_of
from sf.app.stores import place_of
from sf.app.trust import load_config
from sf.domain import events
from sf.domain.clock import SystemClock
from sf.domain.events import Event
from sf.domain.ids import ulid
from sf.domain.knowledge import Lesson
from sf.domain.outcomes import GateFailed
from sf.domain.units import Status
from sf.errors import DetachedHead
from sf.harness import lessons
from sf.harness.herald import Herald
from sf.harness.rules import Rules
from sf.scheduler import claims, intents
from sf.scheduler.admission import Selection
from sf.scheduler.loop import Result
from sf.scheduler.notices import Notices
from sf.store import attention, knowledge, roots, runs, sessions, units
from sf.store.connection import engine_of, open_reader, transact, writing
from sf.store.place import Url
from sf.store.tx import Tx
from tests.support.stage import CONFIG, PASSING, SHORT, Stage, plan_scene, say, scene, start_sf, task, write
from tests.support.stores import Server

SCENES = (
    plan_scene({"title": "S", "tasks": [task("one"), task("two", blocked_by=["one"])]}),
    scene("execute", write("one.txt"), say()),
    *PASSING,
)


@pytest.fixture
def pair(tmp_path: Path, server: Server) -> tuple[Stage, Stage]:
    """Two clones with one store, and an sf home each."""
    schema = f"shared_{ulid().lower()}"
    server.do(f"CREATE SCHEMA {schema}")
    url = f"{server.url.value}{'&' if '?' in server.url.value else '?'}options=-csearch_path%3D{schema}"
    first, second = (Stage(tmp_path / name / "project", tmp_path / name / ".sf") for name in ("one", "two"))
    for stage in (first, second):
        stage.home.mkdir(parents=True, exist_ok=True)
        text = f'[memory]\nmode = "off"\n[attention]\nmax_waiting = 1\n[store]\nurl = "{url}"\n'
        stage.project.global_config.write_text(text)
        stage.script(*SCENES)
    second.follow(first)
    transact(place_of(first.project), lambda tx: None)
    return first, second


def test_a_unit_that_nobody_began_is_wound_up_by_one_of_them(
    pair: tuple[Stage, Stage], tmp_path: Path
) -> None:
    log = tmp_path / "hooks.log"
    for stage in pair:
        stage.hook("post", f"#!/bin/sh\ncat >/dev/null; sleep 0.3; echo $SF_UNIT_ID >> {log}\n")
        hooks = '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n'
        stage.configure(CONFIG.replace("[harness.gates]", hooks + "[harness.gates]"))
    unit = pair[0].plan("never begun")
    pair[0].submit("abandon", unit_id=unit, reason="not needed")

    async def both() -> list[Result]:
        return await asyncio.gather(*(autopilot(stage.project) for stage in pair))

    assert [result.ending for result in asyncio.run(both())] == ["done", "done"]
    assert log.read_text().split() == [unit]


def abandon(tx: Tx, unit: str, rules: Rules) -> None:
    now = SystemClock().now()
    payload = {"unit_id": unit, "reason": "stop it", "now": True}
    row = sessions.intent(tx, sessions.intend(tx, "abandon", payload, now))
    assert row is not None
    intents.apply_one(tx, row, rules, now)


def test_what_is_called_off_at_once_ends_at_once_whoever_applied_it(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    here.script(*SCENES, latency_ms=30_000)
    unit = here.plan("one")
    rules, place = rules_of(load_config(there.project)), place_of(there.project)

    def watch(event: Event) -> None:
        if event.name == events.RUN_STARTED:
            transact(place, lambda tx: abandon(tx, unit, rules))

    began = time.monotonic()
    here.auto(watch=watch)
    assert time.monotonic() - began < 10, "it did not wait for the model"
    assert here.unit(unit).status is Status.CANCELED
    assert [run.error_code for run in runs.of_unit(here.read, unit)] == ["canceled_by_operator"]


def test_what_a_folder_that_is_gone_had_begun_can_be_abandoned_by_anyone(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    unit = here.plan("one")
    rules, place = rules_of(load_config(there.project)), place_of(there.project)

    def lose(tx: Tx) -> None:
        gone = {"holder": "gone#1@1", "host": "gone", "station": here.project.key}
        taken = claims.take(tx, here.unit(unit), rules=rules, now=SystemClock().now(), **gone)
        assert taken is not None
        abandon(tx, unit, rules)

    transact(place, lose)
    there.auto()
    assert here.unit(unit).claim_holder == "gone#1@1", "its claim lasts, so it may still be at work"
    transact(place, lambda tx: tx.run("UPDATE units SET claim_until = claim_until - 3600000"))
    warned: list[str] = []
    there.auto(watch=lambda e: warned.append(e.data["detail"]) if e.name == events.WARNING else None)
    assert f"ended for {here.project.key}" in warned[0]
    ended = here.unit(unit)
    assert (ended.status, ended.claim_holder, ended.archived_at is None) == (Status.CANCELED, None, False)
    assert [run.error_code for run in runs.of_unit(here.read, unit)] == ["canceled_by_operator"]
    assert units.to_wind_up(here.read, here.project.key) == []


def test_a_claim_of_another_host_that_ends_between_two_looks_is_taken_over(pair: tuple[Stage, Stage]) -> None:
    here, _ = pair
    here.script(plan_scene({"title": "S", "tasks": [task("one")]}), *SCENES[1:])
    unit = here.plan("one")
    rules, place = rules_of(load_config(here.project)), place_of(here.project)

    def lose(tx: Tx) -> None:
        gone = {"holder": "gone#1@1", "host": "gone", "station": here.project.key}
        assert claims.take(tx, here.unit(unit), rules=rules, now=SystemClock().now(), **gone) is not None

    transact(place, lose)
    ticks: list[Event] = []

    def watch(event: Event) -> None:
        if event.name == events.AUTO_LOOP:
            ticks.append(event)
            if len(ticks) == 1:
                transact(
                    place,
                    lambda tx: tx.run("UPDATE units SET claim_until = 1 WHERE claim_holder LIKE 'gone%'"),
                )

    result = here.auto(watch=watch)
    assert (result.ending, result.detail) == ("done", "")
    assert here.unit(unit).verdict == "success"


def test_what_another_folder_has_to_wind_up_is_not_taken_along(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    here.script(plan_scene({"title": "S", "tasks": [task("one")]}), SCENES[1], *PASSING)
    here.plan("one")
    assert here.auto().ending == "done"
    place = place_of(there.project)
    transact(place, lambda tx: tx.run("UPDATE units SET wound_up_at = NULL WHERE id = 'slice/m1/s1'"))
    refused = there.sf("store", "migrate", "sqlite")
    assert (refused.returncode, here.project.key in refused.stderr) == (2, True), refused.stderr
    assert "--others-gone" in refused.stderr
    moved = there.sf("store", "migrate", "sqlite", "--others-gone")
    assert moved.returncode == 0, moved.stderr
    there.project.global_config.write_text('[memory]\nmode = "off"\n')
    assert there.auto().ending == "done"
    undone = there.sf("revert", "m1", "--yes")
    assert (undone.returncode, "worked on in another folder" in undone.stderr) == (2, True), undone.stderr


def test_a_unit_is_dispatched_out_of_turn_only_where_its_work_is(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    here.plan("one")
    assert here.auto(Selection(most=2)).ending == "done", "it has been planned"
    done = there.sf("dispatch", "task/m1/s1/t2")
    assert (done.returncode, "belongs to another folder" in done.stderr) == (2, True), done.stderr
    assert here.unit("task/m1/s1/t2").open_blockers == 1, "nothing was changed"


def test_a_prompt_is_done_where_it_was_asked_for(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    there.workflow("short", SHORT)
    unit = there.plan("fix the typo", adhoc=True, workflow="short")
    assert here.auto().ending == "done" and here.unit(unit).attempt == 0, "nobody else takes it"
    assert there.auto(Selection(only=frozenset({unit}))).ending == "done"
    assert there.unit(unit).verdict == "success" and (there.root / "one.txt").exists()
    goal = there.plan("a goal")
    assert here.unit(goal).station is None, "a goal is anybody's"


def test_who_loses_a_race_for_a_unit_takes_the_next_one(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    there.configure(CONFIG + "[harness.concurrency]\nmax_agents = 1\n")
    there.workflow("short", SHORT)
    first, second = here.plan("one", priority=1), there.plan("two", adhoc=True, workflow="short")
    rules, place = rules_of(load_config(here.project)), place_of(here.project)

    def take() -> None:
        """As an autopilot does: nobody is rung for."""
        connection = writing(engine_of(place))
        connection.begin()
        tx, now, station = Tx(connection), SystemClock().now(), here.project.key
        unit = units.get(tx, first)
        assert claims.take(tx, unit, holder="h", host="h", station=station, rules=rules, now=now)
        connection.commit()
        connection.close()

    def watch(event: Event) -> None:
        if event.name == events.PRE_DISPATCH and event.unit_id == first:
            take()

    result = there.auto(watch=watch)
    assert (result.ending, result.detail) == ("done", "")
    assert there.unit(second).verdict == "success" and there.unit(first).station == here.project.key


def test_a_session_goes_on_while_one_of_them_works(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    there.plan("one")
    there.git("switch", "-q", "--detach")
    place = place_of(here.project)
    assert isinstance(place, Url)

    def status() -> str:
        session = sessions.current(open_reader(place))
        return str(session["status"]) if session else ""

    async def meanwhile() -> list[str]:
        notices = Notices(place, lambda: None, lambda: None)
        with pytest.raises(DetachedHead):
            await autopilot(there.project)
        refused = status()
        there.git("switch", "-q", "main")
        await autopilot(there.project, selection=Selection(most=1))
        await notices.aclose()
        return [refused, status()]

    now = SystemClock().now()
    transact(place, lambda tx: sessions.set_status(tx, sessions.ensure(tx, now), "running", now))
    assert asyncio.run(meanwhile()) == ["running"] * 2, "neither a refused start nor an end is the other's"
    there.auto(Selection(most=1))
    assert status() == "idle"
    there.git("switch", "-q", "--detach")
    with pytest.raises(DetachedHead):
        there.auto()
    assert status() == "failed", "nobody else is there"


def test_of_two_that_end_together_the_last_one_writes_that_it_is_over(pair: tuple[Stage, Stage]) -> None:
    both_looked = asyncio.Barrier(2)

    async def closed_late(self: Herald) -> None:
        await both_looked.wait()  # for the other's seat, before either gives its own up
        await close(self)

    async def both() -> None:
        async with asyncio.timeout(20):
            await asyncio.gather(*(autopilot(stage.project) for stage in pair))

    close = Herald.aclose
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Herald, "aclose", closed_late)
        asyncio.run(both())
    session = sessions.current(open_reader(place_of(pair[0].project)))
    assert session is not None
    assert session["status"] == "idle"


@pytest.mark.parametrize("paused", [False, True])
def test_one_that_took_leave_while_another_came_and_went_writes_that_it_is_over(
    pair: tuple[Stage, Stage], paused: bool
) -> None:
    here, there = pair
    taking_leave, other_ended = asyncio.Event(), asyncio.Event()

    async def closed_late(self: Herald) -> None:
        if not taking_leave.is_set():
            taking_leave.set()  # its end is on record by now, and its seat is still its own
            await other_ended.wait()
        await close(self)

    async def one_within_the_other() -> None:
        async with asyncio.timeout(20):
            first = asyncio.create_task(autopilot(here.project))
            await taking_leave.wait()
            if paused:
                await asyncio.to_thread(there.submit, "resume")
            await autopilot(there.project)
            other_ended.set()
            await first

    if paused:
        here.submit("pause")
    close = Herald.aclose
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Herald, "aclose", closed_late)
        asyncio.run(one_within_the_other())
    session = sessions.current(open_reader(place_of(here.project)))
    assert session is not None
    assert session["status"] == "idle"


def test_a_session_that_another_start_called_ended_is_running_again_at_the_next_tick(
    pair: tuple[Stage, Stage],
) -> None:
    """It was stopped before it had a seat to be seen by."""
    here, _ = pair
    here.script(*SCENES, latency_ms=500)
    here.plan("one")
    place, seen = place_of(here.project), list[str]()

    def interrupt(tx: Tx) -> None:
        session = sessions.current(tx)
        assert session is not None
        sessions.set_status(tx, session["id"], "interrupted", SystemClock().now())

    def watch(event: Event) -> None:
        session = sessions.current(open_reader(place))
        seen.append(str(session["status"]) if session else "")
        if event.name == events.RUN_STARTED and "interrupted" not in seen:
            transact(place, interrupt)
            seen.append("interrupted")

    here.auto(Selection(most=1), watch)
    assert "running" in seen[seen.index("interrupted") :]


def test_lessons_wait_for_the_memory_of_the_folder_that_learned_them(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    for stage in pair:
        config = stage.project.global_config
        told = config.read_text().replace('mode = "off"', 'mode = "embedded"\nembedder = "static"')
        config.write_text(told)
    there.workflow("short", SHORT)
    unit = there.plan("two", adhoc=True, workflow="short")
    place, now = place_of(here.project), SystemClock().now()
    rules = rules_of(load_config(there.project), bank="project/x")
    refused = GateFailed("check", "expected 1, found 2")

    def teach(tx: Tx) -> None:
        knowledge.enqueue(tx, "project/x", [Lesson("of nobody in particular")], now)
        knowledge.enqueue(tx, "project/x", [Lesson("here")], now, here.project.key)
        lessons.mistake_made(tx, units.get(tx, unit), refused, rules, now)

    transact(place, teach)
    assert here.auto().ending == "done"
    (left,) = knowledge.due(here.read, now, longest=0)
    assert left.lesson.metadata == {"source_unit": unit} and left.attempts == 0
    there.auto(Selection(most=1))
    assert knowledge.waiting(there.read).count == 0


def test_the_folder_of_a_unit_that_another_has_is_named(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    unit, place = here.plan("one"), f"in the folder {here.project.key}"
    here.script(*SCENES, latency_ms=30_000)
    process = start_sf(here.root, here.home, "auto")
    try:
        deadline = time.monotonic() + 20
        while here.unit(unit).status is not Status.RUNNING and time.monotonic() < deadline:
            time.sleep(0.05)
        [line] = reports.status(there.project).running
        assert (line.standing, line.detail) == ("running", place)
        assert place in there.sf("status").stdout
        assert place in reports.why(there.project, unit).reason
    finally:
        process.kill()
        process.communicate()
    [line] = reports.status(there.project).running
    assert line.standing == "cut off" and line.detail.endswith(place)
    assert reports.why(there.project, unit).way_out == f"sf auto {place}"
    here.script(*SCENES)
    here.auto(Selection(most=1))
    told = reports.why(there.project, unit)
    assert (told.reason, told.way_out) == (f"ready: {place}", f"sf auto {place}")
    assert reports.status(there.project).way_on == "", "there is nothing to do here"


def test_a_store_belongs_to_one_repository(pair: tuple[Stage, Stage], tmp_path: Path) -> None:
    here, there = pair
    goal = here.plan("one")
    other = Stage(tmp_path / "other" / "project", tmp_path / "other" / ".sf")
    other.commit_anew("another beginning")
    other.project.global_config.write_text(here.project.global_config.read_text())
    other.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    steered = [other.sf("pause"), other.sf("abandon", goal, "begun with nothing")]
    other.git("switch", "-q", "--detach", "main")
    steered += [other.sf("pause"), other.sf("abandon", goal, "not mine")]
    steered += [other.sf("session", "end", "--force"), other.sf("doctor", "fix"), other.sf("clean")]
    for refused in (other.sf("auto"), other.sf("plan", "mine"), *steered):
        assert (refused.returncode, "store_foreign" in refused.stderr) == (2, True), refused.stderr
    assert [unit.station for unit in units.listed(here.read)] == [None]
    assert reports.status(here.project).session == "idle", "what is refused leaves nothing there"
    there.auto(Selection(most=1))
    assert there.unit(goal).attempt == 1
    there.commit_anew("rewritten")
    there.auto(Selection(most=1))
    assert there.unit(goal).attempt == 2, "it has worked from here before"
    assert len(roots.known(here.read)) == 2


def test_every_beginning_of_a_history_is_known_as_the_stores(pair: tuple[Stage, Stage]) -> None:
    """A clone of a rewritten history, or of one that took in another, was called a stranger."""
    here, there = pair
    here.plan("one")
    here.git("checkout", "-q", "--orphan", "anew")
    here.git("commit", "-q", "-m", "rewritten")
    here.git("branch", "-q", "-M", "main")
    library = here.git("commit-tree", here.git("rev-parse", "HEAD^{tree}"), "-m", "a library")
    here.git("merge", "-q", "--allow-unrelated-histories", "-m", "take it in", library)
    here.auto(Selection(most=1))
    beginnings = here.git("rev-list", "--max-parents=0", "HEAD").split()
    assert len(beginnings) == 2 and {*beginnings} < {*roots.known(here.read)}
    for beginning in beginnings:
        there.git("fetch", "-q", str(here.root), "HEAD")
        there.git("switch", "-q", "-C", "main", beginning)
        there.git("reflog", "expire", "--expire=now", "--all")
        assert "store_foreign" not in there.sf("auto").stderr


def test_a_folder_that_asked_for_money_stops_no_other(pair: tuple[Stage, Stage]) -> None:
    """What it asked for is dearer than anything here, and it may never come back."""
    here, there = pair
    capped = (
        CONFIG.replace("[harness]", "[harness]\nmax_output_tokens = 1000", 1)
        + "[budget]\nsession_usd = 1.0\n"
    )
    for stage, price in ((there, 5000), (here, 10)):
        stage.configure(capped)
        stage.script(*SCENES, price={"input": 0, "output": price})
    there.plan("dear")
    assert there.auto().ending == "budget"
    cheap = here.plan("cheap")
    here.auto(Selection(most=1))
    assert here.unit(cheap).attempt == 1
    assert len(attention.waiting(here.read)) == 1, "nor is the question withdrawn"


def test_a_configuration_that_is_cut_before_it_names_the_server_sends_nobody_elsewhere(
    pair: tuple[Stage, Stage],
) -> None:
    here, _ = pair
    here.plan("one")
    here.auto(Selection(most=1))
    whole = here.project.global_config.read_text()
    here.project.global_config.write_text(whole[: whole.index("[store]")] + "[memo")
    for refused in (here.sf("status"), here.sf("pause")):
        assert (refused.returncode, "invalid_config" in refused.stderr) == (2, True), refused.stdout
    here.project.global_config.write_text(whole[: whole.index("[store]")])
    assert here.sf("status").returncode == 0, "a whole one that names none means none"


def test_a_goal_stays_whole_where_it_is_when_its_branch_goes(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    here.git("switch", "-q", "-c", "release")
    there.git("branch", "release")
    goal = here.plan("one")
    gone: list[Event] = []

    def watch(event: Event) -> None:
        planned = event.name == events.PHASE_CHANGE and (event.unit_id, event.data["to"]) == (goal, "execute")
        if planned and not gone:
            gone.append(event)
            here.git("switch", "-q", "main")
            here.git("branch", "-D", "release")

    assert here.auto(watch=watch).held == ("task/m1/s1/t1",)
    assert there.auto().ending == "done", "it has the branch, but nothing of the goal"
    assert runs.of_unit(there.read, "task/m1/s1/t1")[-1].error_code == "checkout_dirty"
    assert {unit.station for unit in units.listed(here.read)} == {here.project.key}
    here.git("branch", "release")
    here.auto()
    assert here.unit("task/m1/s1/t1").succeeded


def test_nobody_waits_for_the_time_of_a_unit_that_another_has(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    unit = there.plan("one")
    late = "UPDATE units SET phase_status = 'failed', attempt = 1, due_at = :due, station = :station"
    due = SystemClock().now() + 3_600_000
    transact(place_of(here.project), lambda tx: tx.run(late, due=due, station=here.project.key))
    asked = autopilot(there.project, selection=Selection(only=frozenset({unit})))
    assert asyncio.run(asyncio.wait_for(asked, 20)).ending == "done"


def test_questions_of_the_other_are_a_reason_to_wait_and_no_failure(pair: tuple[Stage, Stage]) -> None:
    here, there = pair
    asking = scene("execute", say("Which?\n<turn_status>blocked</turn_status>"))
    here.script(plan_scene({"title": "S", "tasks": [task("one")]}), asking, *PASSING)
    here.plan("one")
    here.plan("two")
    assert here.auto().ending == "waiting"
    unit = there.plan("three")
    result = there.auto()
    assert (result.ending, result.held) == ("waiting", ())
    assert result.detail.startswith("2 questions wait")
    assert reports.why(there.project, unit).reason == f"waits for answers: {result.detail}"
