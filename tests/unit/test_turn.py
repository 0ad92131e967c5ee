"""The turn loop under a scripted model: how it goes on, how it ends, and what it never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sf.domain.budget import Budget
from sf.domain.dialogue import Prompting, Reply
from sf.domain.phases import Phase
from sf.domain.runs import TurnKind
from sf.errors import (
    BadUsage,
    BudgetExhausted,
    InputRequired,
    ModelUnavailable,
    NoProduct,
    QuotaWait,
    SfError,
    Stalled,
    Transient,
    TurnFailed,
    TurnTimeout,
    Unreachable,
)
from sf.harness.progress import Progress
from sf.harness.turn import NON_INTERACTIVE
from sf.providers.playbooks import ScriptedCall, ScriptedTurn
from sf.tools.submissions import Reassessment, Submit
from sf.tools.toolbox import for_phase
from tests.support.conversing import Heard, Recorder, calls, dialogue, says


@pytest.mark.conforms("C-05", "C-55")
async def test_the_task_is_said_once_and_later_turns_get_only_guidance(tmp_path: Path) -> None:
    talk, recorder = Heard(says("hm"), says("done", "complete")), Recorder()
    ended = await dialogue(talk, recorder, tmp_path).run()
    assert (ended.how, ended.text) == ("complete", "done")
    assert talk.said[0].startswith("the whole task")
    assert len(talk.said) == 2
    assert "last_error" not in talk.said[1]
    assert "the whole task" not in talk.said[1]
    assert [record.kind for record in recorder.turns] == [TurnKind.FIRST, TurnKind.CONTINUATION]


async def test_tool_results_are_the_continuation(tmp_path: Path) -> None:
    talk, recorder = Heard(calls("list_files"), calls("list_files"), says("x", "complete")), Recorder()
    ended = await dialogue(talk, recorder, tmp_path).run()
    assert ended.how == "complete"
    assert len(talk.said) == 1, "no continuation prompt after a reply that asked for tools"
    assert [record.tool_calls for record in recorder.turns] == [1, 1, 0]
    assert all(record.messages for record in recorder.turns)


@pytest.mark.conforms("C-81")
@pytest.mark.parametrize("marker", ["blocked", "giving_up", "complete"])
async def test_a_marker_ends_the_conversation(tmp_path: Path, marker: str) -> None:
    talk, recorder = Heard(says("my words", marker)), Recorder()
    ended = await dialogue(talk, recorder, tmp_path).run()
    assert (ended.how, ended.text) == (marker, "my words")
    assert recorder.turns[0].marker == marker


async def test_complete_without_the_product_is_told_once_what_is_missing(tmp_path: Path) -> None:
    async def missing(text: str) -> str:
        return "no file has changed."

    talk = Heard(says("done", "complete"), says("really", "complete"), says("never", "complete"))
    with pytest.raises(NoProduct, match="no file has changed"):
        await dialogue(talk, Recorder(), tmp_path, missing=missing).run()
    assert "no file has changed" in talk.said[1]
    assert len(talk.said) == 2


async def test_words_without_a_marker_end_after_one_continuation(tmp_path: Path) -> None:
    talk = Heard(says("one"), says("two"), says("three"))
    ended = await dialogue(talk, Recorder(), tmp_path).run()
    assert (ended.how, ended.text) == ("complete", "two")


@pytest.mark.conforms("C-08")
async def test_a_question_is_answered_softly_once_and_then_parked(tmp_path: Path) -> None:
    talk = Heard(says("Shall I go on?"), says("Are you there?"))
    ended = await dialogue(talk, Recorder(), tmp_path).run()
    assert talk.said[1] == NON_INTERACTIVE
    assert (ended.how, ended.text) == ("blocked", "Are you there?")


@pytest.mark.conforms("C-08")
async def test_a_question_fails_at_once_in_hard_mode(tmp_path: Path) -> None:
    talk = Heard(says("Shall I go on?"))
    with pytest.raises(InputRequired) as refused:
        await dialogue(talk, Recorder(), tmp_path, input_required="hard").run()
    assert refused.value.code == "turn_input_required"
    assert len(talk.said) == 1


@pytest.mark.conforms("C-09", "C-11")
async def test_a_full_window_is_replaced_before_the_next_turn(tmp_path: Path) -> None:
    talk, recorder = Heard(calls("list_files"), says("x", "complete")), Recorder()
    recorder.known = "WHAT IS KNOWN"
    budget = Budget(max_tokens=400, compact_at=0.05, hard_limit_at=1.0)
    ended = await dialogue(talk, recorder, tmp_path, budget=budget).run()
    assert ended.how == "complete"
    assert "list_files" in recorder.summaries[0], "what is given up is kept in short"
    assert "WHAT IS KNOWN" in talk.restarts[0], "and a fresh recall is in the new window"
    assert len(talk.restarts) >= 1
    assert "the whole task" in talk.restarts[0]
    assert "list_files" in talk.restarts[0], "what was done so far is carried over"


@pytest.mark.conforms("C-09")
async def test_the_hard_limit_halts_and_the_budget_was_persisted_first(tmp_path: Path) -> None:
    talk, recorder = Heard(calls("list_files"), says("x", "complete")), Recorder()
    budget = Budget(max_tokens=10, compact_at=0.5, hard_limit_at=0.9)
    with pytest.raises(BudgetExhausted) as halted:
        await dialogue(talk, recorder, tmp_path, budget=budget).run()
    assert halted.value.code == "budget_exhausted"
    assert len(recorder.turns) == 1
    assert recorder.turns[0].budget.at_hard_limit()


@pytest.mark.conforms("C-09", "C-10")
async def test_the_budget_of_every_turn_is_recorded_as_an_absolute_total(tmp_path: Path) -> None:
    talk, recorder = Heard(*[calls("list_files")] * 3, says("x", "complete")), Recorder()
    await dialogue(talk, recorder, tmp_path).run()
    for record in recorder.turns:
        assert record.budget.used_tokens == record.usage.input_tokens + record.usage.output_tokens
    used = [record.budget.used_tokens for record in recorder.turns]
    assert used == sorted(used)


async def test_the_turns_are_limited(tmp_path: Path) -> None:
    talk, recorder = Heard(*[calls("list_files")] * 9), Recorder()
    ended = await dialogue(talk, recorder, tmp_path, max_turns=4).run()
    assert ended.how == "turns_spent"
    assert len(recorder.turns) == 4


@pytest.mark.parametrize(("answer", "how"), [("pause", "paused"), ("cancel", "canceled")])
async def test_the_row_is_looked_at_between_turns(tmp_path: Path, answer: str, how: str) -> None:
    talk, recorder = Heard(calls("list_files"), says("x", "complete")), Recorder()
    recorder.answer = answer  # type: ignore[assignment]
    ended = await dialogue(talk, recorder, tmp_path).run()
    assert ended.how == how
    assert len(recorder.turns) == 1, "the turn that ran is persisted"


async def test_an_accepted_submission_ends_and_a_refused_one_does_not(tmp_path: Path) -> None:
    def check(form: Reassessment) -> None:
        if not form.questions:
            raise BadUsage("escalate needs a question")

    toolbox = for_phase(Phase.REASSESS, Submit("submit_reassessment", "", Reassessment, check))
    refused = calls("submit_reassessment", outcome="escalate", explanation="x")
    accepted = calls("submit_reassessment", outcome="escalate", explanation="x", questions=["which?"])
    talk = Heard(refused, accepted, says("never", "complete"))
    ended = await dialogue(talk, Recorder(), tmp_path, toolbox=toolbox).run()
    assert ended.how == "submitted"
    assert ended.submission == Reassessment("escalate", "x", ("which?",))
    first = json.loads(talk.results[0].content)
    assert (first["success"], first["output"]) == (False, "not accepted: escalate needs a question")


@pytest.mark.conforms("C-18", "C-19")
async def test_an_unknown_or_malformed_call_is_answered_and_the_session_goes_on(tmp_path: Path) -> None:
    malformed = ScriptedTurn(calls=(ScriptedCall("read_file", {}),), fault="malformed")
    talk = Heard(calls("fly"), malformed, calls("read_file", path=3), says("x", "complete"))
    ended = await dialogue(talk, Recorder(), tmp_path).run()
    assert ended.how == "complete"
    answers = [json.loads(result.content) for result in talk.results]
    assert [set(answer) for answer in answers] == [{"success", "output", "contentItems"}] * 3
    assert [answer["success"] for answer in answers] == [False] * 3
    assert "fly" in answers[0]["output"]
    assert "read_file" in answers[0]["contentItems"][0]["text"], "it says what there is"


async def test_a_dropped_stream_is_tried_again_in_place(tmp_path: Path) -> None:
    drop = ScriptedTurn(fault="drop")
    talk, recorder = Heard(drop, drop, says("x", "complete")), Recorder()
    ended = await dialogue(talk, recorder, tmp_path).run()
    assert ended.how == "complete"
    assert recorder.errors == ["turn_failed", "turn_failed", ""]
    assert len(recorder.turns) == 1


async def test_a_stream_that_keeps_dropping_ends_the_run(tmp_path: Path) -> None:
    talk = Heard(*[ScriptedTurn(fault="drop")] * 9)
    with pytest.raises(Transient):
        await dialogue(talk, Recorder(), tmp_path).run()
    assert len(talk.promptings) == 4


async def test_a_short_quota_is_waited_for_and_a_long_one_ends_the_run(tmp_path: Path) -> None:
    short = ScriptedTurn(fault="rate_limit", seconds=0.01)
    ended = await dialogue(Heard(short, says("x", "complete")), Recorder(), tmp_path).run()
    assert ended.how == "complete"
    with pytest.raises(QuotaWait) as waits:
        await dialogue(Heard(ScriptedTurn(fault="rate_limit", seconds=600)), Recorder(), tmp_path).run()
    assert waits.value.seconds == 600


class Refusing(Heard):
    """A model of which the first few requests end with this error, billing nothing."""

    def __init__(self, error: SfError, times: int) -> None:
        super().__init__(says("x", "complete"))
        self.error = error
        self.error.unbilled = True
        self.left = times

    async def request(self, prompting: Prompting, on_event: Callable[[], None]) -> Reply:
        if self.left:
            self.left -= 1
            raise self.error
        return await super().request(prompting, on_event)

    def ceiling(self, prompting: Prompting) -> int:
        return 5


async def test_a_model_out_of_reach_is_tried_in_place_and_then_ends_the_run(tmp_path: Path) -> None:
    recorder, away = Recorder(), Unreachable("cannot reach it")
    assert (await dialogue(Refusing(away, 3), recorder, tmp_path).run()).how == "complete"
    assert recorder.errors == ["provider_unreachable"] * 3 + [""]
    assert len(recorder.let_go) == 3, "nothing was sent, so nothing is owed"
    with pytest.raises(Unreachable):
        await dialogue(Refusing(away, 4), Recorder(), tmp_path).run()


@pytest.mark.parametrize(
    ("seconds", "asked", "ends"), [(0.01, 4, Transient), (30.5, 1, QuotaWait), (7200.0, 1, QuotaWait)]
)
async def test_a_failure_that_names_a_time_is_a_wait_only_when_that_is_far_off(
    tmp_path: Path, seconds: float, asked: int, ends: type[SfError]
) -> None:
    talk, recorder = Refusing(Transient("HTTP 503", retry_after=seconds), 9), Recorder()
    with pytest.raises(SfError) as ended:
        await asyncio.wait_for(dialogue(talk, recorder, tmp_path).run(), 10)
    assert type(ended.value) is ends
    assert len(recorder.errors) == len(recorder.let_go) == asked
    assert not isinstance(ended.value, QuotaWait) or ended.value.seconds == seconds


@pytest.mark.parametrize(
    ("fault", "error"), [("server_error", TurnFailed), ("unavailable", ModelUnavailable)]
)
async def test_other_faults_end_the_run_at_once(tmp_path: Path, fault: str, error: type[Exception]) -> None:
    talk = Heard(ScriptedTurn(fault=fault))  # type: ignore[arg-type]
    with pytest.raises(error):
        await dialogue(talk, Recorder(), tmp_path).run()
    assert len(talk.promptings) == 1


async def test_a_silent_model_is_given_up(tmp_path: Path) -> None:
    stall = ScriptedTurn(fault="stall", seconds=60)
    with pytest.raises(Stalled):
        await dialogue(Heard(stall), Recorder(), tmp_path, stall_timeout=0.05).run()
    with pytest.raises(TurnTimeout):
        await dialogue(Heard(stall), Recorder(), tmp_path, turn_timeout=0.05).run()


async def test_an_empty_answer_is_nudged_and_then_judged_by_the_product(tmp_path: Path) -> None:
    talk = Heard(ScriptedTurn(fault="empty"), ScriptedTurn(fault="empty"))
    ended = await dialogue(talk, Recorder(), tmp_path).run()
    assert ended.how == "complete"
    assert len(talk.said) == 2


def _trees(*names: str) -> Progress:
    """A run whose folder shows these trees, one at each look, the last one for good."""
    left = list(names)

    async def tree() -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    return Progress(tree, 2)


async def test_turns_that_change_nothing_are_told_once_and_then_end_the_run(tmp_path: Path) -> None:
    talk, recorder = Heard(*[calls("list_files")] * 9), Recorder()
    ended = await dialogue(talk, recorder, tmp_path, progress=_trees("same")).run()
    assert ended.how == "stale"
    assert len(recorder.turns) == 4, "two turns, the pivot, two more"
    assert len(talk.said) == 2
    assert "last 2 turns have changed nothing" in talk.said[1]


async def test_a_tree_that_was_there_before_is_no_progress_and_a_new_one_is(tmp_path: Path) -> None:
    talk = Heard(*[calls("list_files")] * 7, says("done", "complete"))
    ended = await dialogue(talk, Recorder(), tmp_path, progress=_trees("a", "b", "a", "c")).run()
    assert ended.how == "complete"
    assert len(talk.said) == 2, "going back from b to a is told; c is progress again"


async def test_without_a_limit_nobody_looks(tmp_path: Path) -> None:
    async def tree() -> str:
        raise AssertionError("looked")

    talk = Heard(*[calls("list_files")] * 5, says("done", "complete"))
    assert (await dialogue(talk, Recorder(), tmp_path, progress=Progress(tree, 0)).run()).how == "complete"
