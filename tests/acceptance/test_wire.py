"""The whole path against a server that speaks the wire formats, with a plan that the demo never saw."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest
import tomlkit

from sf.app.stores import place_of
from sf.domain import events
from sf.scheduler.admission import Selection
from sf.store import ledger, runs, spending
from sf.store.connection import transact
from sf.testing.model_server import (
    KEY,
    Answer,
    Call,
    ModelServer,
    RequestView,
    Say,
    Scripted,
    ServerError,
    Tokens,
)
from tests.support.stage import CONFIG, Stage, task

USAGE = Tokens(input=1000, output=100)


def _reply(*parts: Say | Call) -> Answer:
    texts = tuple(part.text for part in parts if isinstance(part, Say))
    calls = tuple(part for part in parts if isinstance(part, Call))
    return Answer(texts=texts, calls=calls, usage=USAGE)


def _agent(view: RequestView) -> Scripted:
    """A model that reads what it is told: the tools it is offered say which phase it is in."""
    tools = set(view.tools)
    answered = {result.content for message in view.messages for result in message.results}
    done = Say("Finished.\n<turn_status>complete</turn_status>")
    if "submit_plan" in tools:
        slices = [{"title": "Greeting", "tasks": [task("Greet", allowed_areas=["hello.txt", "tests"])]}]
        return _reply(
            Call("submit_plan", {"goal": "g", "approach": "a", "deliverables": ["d"], "slices": slices})
        )
    if "submit_review" in tools:
        return _reply(Call("submit_review", {"findings": []}))
    if "submit_synthesis" in tools:
        return _reply(Call("submit_synthesis", {"verdict": "pass", "summary": "good"}))
    if "write_file" in tools and not answered:
        name = "tests/test_hello.txt" if "proves what was just built" in view.system else "hello.txt"
        return _reply(
            Say("I write it."),
            Call("write_file", {"path": name, "content": "hello from a wire\n"}),
            Call("bash", {"command": f"cat {name}"}),
        )
    return _reply(done)


MODELS = {
    "anthropic": "anthropic:claude-sonnet-4-5",
    "openai": "openai:gpt-4o-mini",
    "local": "local:some-model",
}


@pytest.mark.parametrize("provider", list(MODELS))
def test_a_goal_becomes_merged_commits_over_the_wire(stage: Stage, provider: str) -> None:
    with ModelServer(_agent) as server:
        base = server.url if provider == "anthropic" else f"{server.url}/v1"
        stage.home.mkdir(parents=True, exist_ok=True)
        model = MODELS[provider].partition(":")[2]
        settings: dict[str, Any] = {"base_url": base, "api_key": '$(printf %s "$TEST_KEY")'}
        if provider != "local":
            settings["prices"] = {model: {"input": 3.0, "output": 15.0}}
        (stage.home / "config.toml").write_text(tomlkit.dumps({"providers": {provider: settings}}))
        stage.configure(CONFIG.replace("script:test", MODELS[provider]))
        assert stage.sf("plan", "Greet the world").returncode == 0
        done = stage.sf("auto", env={"TEST_KEY": KEY}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (stage.root / "hello.txt").read_text() == "hello from a wire\n"
    assert "Merge slice/m1/s1: Greeting" in stage.git("log", "--oneline")
    spent = runs.totals(stage.read)
    assert spent["input_tokens"] >= 8000
    priced = provider != "local"
    assert (spent["cost_micro_usd"] > 0) is priced
    assert ("requests have no known price" not in stage.sf("cost").stdout) is priced
    assert all(not request.key_in_body for request in server.requests)
    for file in stage.project.dot.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


def test_a_price_that_is_put_right_while_sf_runs_holds_for_what_begins_then(stage: Stage) -> None:
    """Its key is asked for anew, by a command that takes its time; the loop does not wait for it."""
    seen: list[RequestView] = []
    asked_at, came_at = stage.home / "asked", stage.home / "came"
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.time())
            await asyncio.sleep(0.02)

    def watch(event: events.Event) -> None:
        if event.name == events.CONFIG_RELOADED:
            beating.append(asyncio.get_running_loop().create_task(beat()))

    beating: list[asyncio.Task[None]] = []

    def configure(output: float) -> None:
        slow = f"touch {asked_at}; sleep 0.6; touch {came_at}; " if seen else ""
        settings = {"base_url": f"{server.url}/v1", "api_key": f"$({slow}printf %s {KEY})"}
        local = settings | {"prices": {"m": {"input": 0.0, "output": output}}}
        text = tomlkit.dumps({"memory": {"mode": "off"}, "providers": {"local": local}})
        stage.project.global_config.write_text(text)

    def agent(view: RequestView) -> Scripted:
        seen.append(view)
        if len(seen) == 1:
            configure(1000.0)
            deadline = time.monotonic() + 30
            while not stage.named(events.CONFIG_RELOADED):
                assert time.monotonic() < deadline
                time.sleep(0.02)
        return _agent(view)

    with ModelServer(agent) as server:
        configure(1.0)
        stage.configure(CONFIG.replace("script:test", "local:m"))
        stage.plan()
        stage.auto(Selection(most=2), watch=watch)
    rows = stage.read.all("SELECT cost_micro_usd FROM spend ORDER BY id")
    assert [row["cost_micro_usd"] for row in rows][:2] == [USAGE.output, USAGE.output * 1000]
    between = [at for at in beats if asked_at.stat().st_mtime < at < came_at.stat().st_mtime]
    assert len(between) > 5


def test_an_outage_is_waited_for_costs_nothing_and_the_goal_goes_on_after_it(stage: Stage) -> None:
    def configure(url: str) -> None:
        local = {
            "base_url": f"{url}/v1",
            "api_key": f"$(printf %s {KEY})",
            "prices": {"m": {"input": 3.0, "output": 1000.0}},
        }
        text = tomlkit.dumps({"memory": {"mode": "off"}, "providers": {"local": local}})
        stage.project.global_config.write_text(text)

    with ModelServer(_agent) as server:
        gone = server.url
    configure(gone)
    growing = CONFIG.replace("script:test", "local:m").replace('"20ms"', '"5m"')
    stage.configure(growing + "[budget]\nsession_usd = 1000.0\n")
    stage.plan()
    stage.auto(Selection(most=2))
    unit = stage.unit("milestone/m1")
    assert [run.error_code for run in runs.of_unit(stage.read, unit.id)] == ["provider_unreachable"] * 2
    assert (unit.phase, unit.hold_kind, unit.run_allowance - unit.attempt) == ("research", None, 100)
    assert ledger.counts(stage.read, unit).tries == 0
    assert unit.due_at is not None and unit.due_at - unit.updated_at == 2000, "the pauses grow"
    account = spending.account(stage.read, "session", unit.session_id)
    assert (account.spent, account.reserved) == (0, 0)
    told = f"cannot reach {gone} for local:m: "
    transact(place_of(stage.project), lambda tx: tx.run("UPDATE units SET due_at = due_at + 60000"))
    for shown in (stage.sf("status").stdout, stage.sf("why", unit.id).stdout):
        assert re.search(rf"waits for the provider(: | \()due in [^;]+; {re.escape(told)}", shown), shown
    assert told in (stage.project.dot / "log" / "sf.log").read_text()
    transact(place_of(stage.project), lambda tx: tx.run("UPDATE units SET due_at = updated_at"))
    with ModelServer(_agent) as server:
        configure(server.url)
        assert stage.auto().ending == "done"
    assert (stage.root / "hello.txt").read_text() == "hello from a wire\n"


def test_a_service_that_names_a_far_time_is_waited_for_like_a_quota(stage: Stage) -> None:
    with ModelServer([ServerError(503, retry_after=7200)]) as server:
        local = {"base_url": f"{server.url}/v1", "api_key": f"$(printf %s {KEY})"}
        text = tomlkit.dumps({"memory": {"mode": "off"}, "providers": {"local": local}})
        stage.project.global_config.write_text(text)
        stage.configure(CONFIG.replace("script:test", "local:m"))
        stage.plan()
        stage.auto(Selection(most=1))
    assert len(server.requests) == 1, "nobody slept, and nobody asked again"
    unit = stage.unit("milestone/m1")
    assert ledger.counts(stage.read, unit).tries == 0
    assert unit.due_at is not None and unit.due_at - unit.updated_at == 7_200_000
    shown = stage.sf("why", unit.id).stdout
    assert re.search(r"waits for a quota: due in [^;]+; local:m: internal server error \(HTTP 503\)", shown)


def test_a_wrong_key_stops_the_session_with_one_line_and_charges_nothing(stage: Stage) -> None:
    with ModelServer(_agent) as server:
        stage.home.mkdir(parents=True, exist_ok=True)
        (stage.home / "config.toml").write_text(f'[providers.local]\nbase_url = "{server.url}/v1"\n')
        stage.configure(CONFIG.replace("script:test", "local:m"))
        stage.sf("plan", "Greet the world")
        done = stage.sf("auto", env={"LOCAL_API_KEY": "wrong"})
    assert done.returncode == 1
    assert "model_unavailable" in done.stdout
    assert stage.unit("milestone/m1").status == "interrupted"
    assert "wrong" not in done.stdout + done.stderr


def test_a_missing_key_is_told_before_anything_starts(stage: Stage) -> None:
    stage.configure(CONFIG.replace("script:test", "anthropic:claude-sonnet-4-6"))
    stage.sf("plan", "x")
    done = stage.sf("auto", env={"ANTHROPIC_API_KEY": ""})
    assert done.returncode == 2
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert stage.unit("milestone/m1").attempt == 0
