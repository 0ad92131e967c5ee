"""Playbooks, the scripted model and the catalog of models; which model a phase gets."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sf.config.schema import Config, Routing, TierModels, Tiers
from sf.domain.dialogue import Prompting, Reply
from sf.domain.phases import Phase
from sf.errors import InvalidPlaybook, ModelUnavailable, QuotaWait, Transient, TurnFailed
from sf.providers import playbooks
from sf.providers.catalog import Catalog, Settings
from sf.providers.hosted import HostedModel
from sf.providers.pricing import Price
from sf.providers.scripted import Cue, ScriptedConversation, ScriptedModel
from sf.routing import route

PLAYBOOK = """\
name = "demo"
[[scene]]
phase = "execute"
unit = "Add*"
visits = [1]
[[scene.turn]]
text = "writing"
[[scene.turn.call]]
tool = "write_file"
arguments = { path = "a.txt", content = "x" }
[[scene.turn]]
text = "done <turn_status>complete</turn_status>"
[[scene]]
phase = "execute"
[[scene.turn]]
text = "another visit"
[[scene]]
phase = "review_*"
[[scene.turn]]
fault = "drop"
[[scene.turn]]
fault = "rate_limit"
seconds = 7
"""
ASK = Prompting(instructions="i", tools=(), thinking=False, max_output_tokens=100, timeout=5)


async def ask(conversation: ScriptedConversation) -> Reply:
    return await conversation.request(ASK, lambda: None)


async def test_the_first_scene_that_fits_is_played_turn_by_turn() -> None:
    model = ScriptedModel(playbooks.parse(PLAYBOOK, "demo"))
    talk = model.start(Cue("execute", "Add a thing", 1))
    talk.say("go")
    first = await ask(talk)
    assert (first.text, first.calls[0].name) == ("writing", "write_file")
    assert first.calls[0].arguments == {"path": "a.txt", "content": "x"}
    assert first.usage.input_tokens > 0
    assert (await ask(talk)).text.startswith("done")
    assert "complete" in (await ask(talk)).text, "a scene with no more turns is done"
    assert (await ask(model.start(Cue("execute", "Add a thing", 2)))).text == "another visit"
    assert (await ask(model.start(Cue("execute", "Other", 1)))).text == "another visit"
    with pytest.raises(TurnFailed, match="no scene"):
        model.start(Cue("plan", "Add a thing", 1))


async def test_faults_are_played_too() -> None:
    talk = ScriptedModel(playbooks.parse(PLAYBOOK, "demo")).start(Cue("review_chunk", "x", 1))
    with pytest.raises(Transient):
        await ask(talk)
    with pytest.raises(QuotaWait) as waits:
        await ask(talk)
    assert waits.value.seconds == 7


async def test_messages_are_handed_over_once_and_usage_is_the_same_every_time() -> None:
    async def play() -> tuple[list[bytes], Reply]:
        talk = ScriptedModel(playbooks.parse(PLAYBOOK, "demo")).start(Cue("execute", "Add", 1))
        talk.say("go")
        reply = await ask(talk)
        messages = talk.take_new_messages()
        assert talk.take_new_messages() == []
        return messages, reply

    assert await play() == await play()


@pytest.mark.parametrize(
    "text",
    [
        "scene = 3",
        "[[scene]]\nphase = 'x'\n",
        "[[scene]]\nphase = 'x'\ntitel = 'y'\n[[scene.turn]]\ntext='a'\n",
        "[[scene]]\nphase = 'x'\n[[scene.turn]]\nfault = 'explode'\n",
        "not toml",
    ],
)
def test_a_playbook_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(InvalidPlaybook):
        playbooks.parse(text, "demo")


async def test_the_catalog_opens_a_model_once_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "demo.toml").write_text(PLAYBOOK)
    opened: list[str] = []

    async def refuse(provider: str, model: str, settings: Settings) -> HostedModel:
        opened.append(f"{provider}:{model}")
        raise ModelUnavailable("no such model")

    catalog = Catalog(tmp_path, refuse, lambda provider, model: Settings())
    cue = Cue("execute", "x", 1)
    await catalog.start("script:demo", cue)
    (tmp_path / "demo.toml").unlink()
    await catalog.start("script:demo", cue)
    with pytest.raises(ModelUnavailable):
        await catalog.start("script:none", cue)
    with pytest.raises(ModelUnavailable):
        await catalog.start("anthropic:claude", cue)
    assert opened == ["anthropic:claude"]
    await catalog.aclose()
    with pytest.raises(ModelUnavailable):
        await catalog.start("script:demo", cue)


async def test_what_a_model_costs_is_known_without_opening_it(tmp_path: Path) -> None:
    async def refuse(provider: str, model: str, settings: Settings) -> HostedModel:
        raise AssertionError("its key would be asked for")

    prices = {"own": Price(3.0, 15.0)}
    catalog = Catalog(tmp_path, refuse, lambda provider, model: Settings(price=prices.get(model)))
    assert catalog.cost_of("local:own", 1000, 100) == 4500
    assert catalog.cost_of("anthropic:own", 1000, 100) == 5250, "it takes more for writing its cache"
    assert catalog.cost_of("local:unknown", 1000, 100) is None
    published = catalog.cost_of("anthropic:claude-sonnet-4-5", 1000, 100)
    assert published == 5250


# --- routing ---

TIERS = Tiers(
    fast=TierModels(models=("script:fast",)),
    standard=TierModels(models=("script:standard", "script:spare")),
    reasoning=TierModels(models=("script:reasoning",)),
)


@pytest.mark.conforms("R-01")
def test_each_phase_gets_the_first_model_of_its_tier() -> None:
    config = Config(tiers=TIERS)
    assert {phase: route(config, phase).tier for phase in Phase if phase is not Phase.UAT} == {
        Phase.RESEARCH: "reasoning",
        Phase.PLAN: "reasoning",
        Phase.EXECUTE: "standard",
        Phase.TDD: "standard",
        Phase.VERIFY: "fast",
        Phase.REVIEW: "standard",
        Phase.MERGE: "fast",
        Phase.COMPLETE: "fast",
        Phase.REASSESS: "reasoning",
    }
    assert route(config, Phase.EXECUTE).model == "script:standard"
    changed = msgspec.structs.replace(config, routing=Routing(execute="fast"))
    assert route(changed, Phase.EXECUTE).model == "script:fast"
    assert route(config, Phase.REVIEW, "reasoning").model == "script:reasoning"


@pytest.mark.conforms("R-02", "C-61")
def test_the_reasoning_tier_thinks_and_the_others_do_not() -> None:
    config = Config(tiers=TIERS)
    assert all(route(config, phase).thinking for phase in (Phase.RESEARCH, Phase.PLAN, Phase.REASSESS))
    assert not any(route(config, phase).thinking for phase in (Phase.EXECUTE, Phase.TDD, Phase.VERIFY))
    cheaper = msgspec.structs.replace(config, routing=Routing(reassess="fast"))
    assert route(cheaper, Phase.REASSESS).thinking
    assert route(config, Phase.EXECUTE, "reasoning").thinking
