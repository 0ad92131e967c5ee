"""The small pure rules: context budget, excerpts, markers, identifiers, time, which phases apply."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sf.domain import ids, markers
from sf.domain.budget import Budget
from sf.domain.clock import Instant, SystemClock, brief_duration, drawn_in, has_passed, rfc3339
from sf.domain.dialogue import Usage
from sf.domain.excerpt import gate_output, head_and_tail, last_error, one_line
from sf.domain.facts import Facts, applies
from sf.domain.phases import Phase
from sf.providers.pricing import Price
from sf.testing.clock import START, FakeClock
from tests.support.samples import unit

USAGES = st.builds(Usage, input_tokens=st.integers(0, 10**6), output_tokens=st.integers(0, 10**5))


@pytest.mark.conforms("C-10")
@given(st.lists(USAGES, min_size=1, max_size=10))
def test_the_newest_total_counts_and_earlier_turns_are_not_added_again(replies: list[Usage]) -> None:
    budget = Budget(10**6, 0.8, 0.95)
    for usage in replies:
        budget = budget.after(usage)
    assert budget.used_tokens == replies[-1].input_tokens + replies[-1].output_tokens


@pytest.mark.conforms("C-09")
@given(st.integers(0, 2000))
def test_the_window_is_replaced_at_its_mark_and_halted_at_its_limit(used: int) -> None:
    budget = Budget(1000, 0.8, 0.95, used_tokens=used)
    assert budget.should_compact() == (used >= 800)
    assert budget.at_hard_limit() == (used >= 950)
    assert budget.emptied().used_tokens == 0


@given(USAGES, USAGES)
def test_usage_adds_up(left: Usage, right: Usage) -> None:
    total = left + right
    assert total.input_tokens == left.input_tokens + right.input_tokens
    assert total.output_tokens == left.output_tokens + right.output_tokens


@pytest.mark.conforms("C-69")
@given(USAGES)
def test_a_price_is_a_whole_number_of_micro_dollars(usage: Usage) -> None:
    cost = Price(3.0, 15.0).cost_micro_usd(usage)
    assert type(cost) is int
    assert cost == 3 * usage.input_tokens + 15 * usage.output_tokens


@given(st.text(max_size=300), st.integers(10, 120))
def test_an_excerpt_keeps_start_and_end_within_its_limit_in_bytes(text: str, limit: int) -> None:
    short = head_and_tail(text, limit, "CUT")
    if len(text.encode()) <= limit:
        assert short == text
        return
    head, tail = short.split("\nCUT\n", 1) if short.count("\nCUT\n") == 1 else (None, None)
    if head is not None and tail is not None:
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len((head + tail).encode()) <= limit
    assert len(short.encode()) <= limit + len("\nCUT\n")


@pytest.mark.conforms("C-74")
def test_a_long_error_keeps_two_kilobytes_of_each_end_and_names_the_whole() -> None:
    text = "A" * 5000 + "B" * 5000
    short = last_error(text, "/x/last-error-full.txt")
    assert (
        short == "A" * 2048 + "\n... [truncated, full payload at /x/last-error-full.txt] ...\n" + "B" * 2048
    )
    assert last_error("é" * 2048, "/x") == "é" * 2048, "4 KB fit"
    assert last_error("é" * 2049, "/x") != "é" * 2049, "bytes are counted, not characters"
    assert len(gate_output("x" * 100_000)) < 8192 + 40


@given(st.text(max_size=200), st.integers(2, 100))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1


@pytest.mark.conforms("C-81")
@given(
    st.text("ab <>/", max_size=100),
    st.sampled_from(["complete", "blocked", "giving_up"]),
    st.integers(0, 400),
)
def test_a_marker_counts_only_within_the_last_200_characters(before: str, word: str, after: int) -> None:
    tag = f"<turn_status>{word}</turn_status>"
    text = before + tag + "." * after
    assert markers.parse(text) == (word if len(tag) + after <= 200 else None)


@pytest.mark.conforms("C-81")
def test_the_last_marker_counts_and_unknown_ones_do_not() -> None:
    text = "<turn_status>blocked</turn_status> no: <turn_status> complete </turn_status>"
    assert markers.parse(text) == "complete"
    assert markers.without(text) == "no:"
    assert markers.parse("<turn_status>done</turn_status>") is None
    assert markers.parse("complete") is None


@pytest.mark.conforms("C-58")
def test_ulids_are_sortable_and_unique() -> None:
    made = [ids.ulid() for _ in range(2000)]
    assert made == sorted(made)
    assert len(set(made)) == 2000
    assert {len(text) for text in made} == {26}


def test_ulids_stay_above_the_floor_and_differ_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    far_ahead = "02" + ids.ulid()[2:]
    made = []
    for _ in range(2):
        # As another process would begin: it has made no id yet.
        monkeypatch.setattr(ids, "_ULIDS", ids._Ulids())
        for nothing in (None, "", "run-1", "01ABC", "ILOU" + far_ahead[4:], "8" + far_ahead[1:]):
            ids.keep_above(nothing)
        assert ids.ulid() < far_ahead
        ids.keep_above(far_ahead)
        ids.keep_above("00" + far_ahead[2:])
        mine = [ids.ulid() for _ in range(500)]
        assert [far_ahead, *mine] == sorted([*mine, far_ahead])
        made += mine
    assert len(set(made)) == 1000
    assert {len(text) for text in made} == {26}


@pytest.mark.conforms("C-21")
@given(st.text(max_size=40))
def test_a_unit_id_becomes_one_safe_folder_name(text: str) -> None:
    name = ids.folder_name(text)
    assert len(name) == len(text)
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in name)


def test_readable_ids() -> None:
    assert ids.child_id("milestone/m2", 3) == "slice/m2/s3"
    assert ids.child_id("slice/m2/s3", 1) == "task/m2/s3/t1"
    assert [ids.unit_type(x) for x in ("milestone/m1", "slice/m1/s1", "task/a1")] == [
        "milestone",
        "slice",
        "task",
    ]
    for good in ("milestone/m1", "slice/m1/s2", "task/m1/s2/t3", "task/a4"):
        assert ids.is_unit_id(good)
    for bad in ("", "task/", "task/m1", "../x", "milestone/m1/s1", "task/a1\n"):
        assert not ids.is_unit_id(bad)


@given(st.text(max_size=80))
def test_a_branch_name_is_one_that_git_takes(title: str) -> None:
    name = ids.branch_name("slice/m1/s2", title)
    assert name.startswith("sf/m1-s2")
    assert all(c.isascii() and (c.isalnum() or c in "-/") for c in name)
    assert not name.endswith(("-", "/", ".lock"))
    assert len(name) <= 60


TITLES = st.from_regex(r"([STst][12]|[12]|[x -]){0,5}", fullmatch=True)
UNITS = ("milestone/m1", "milestone/m11", "slice/m1/s1", "slice/m1/s12", "task/m1/s1/t1", "task/a1")


@given(TITLES, TITLES)
@example("S1 export", "Export")
def test_no_two_units_have_the_same_branch_whatever_their_titles(one: str, two: str) -> None:
    names = [{ids.branch_name(unit_id, title) for title in (one, two)} for unit_id in UNITS]
    assert len(set().union(*names)) == sum(len(each) for each in names)


def test_time_is_told_in_utc_and_in_brief() -> None:
    assert rfc3339(START) == "2026-01-01T00:00:00Z"
    assert [brief_duration(ms) for ms in (840, 4200, 192_000, 7_500_000)] == [
        "840ms",
        "4.2s",
        "3m12s",
        "2h05m",
    ]
    assert SystemClock().now() > START - 10**12


def test_an_interval_is_over_when_it_has_passed_or_the_clock_was_set_back() -> None:
    assert [has_passed(10, 100, Instant(now)) for now in (100, 109, 110, 99, 0)] == [
        *(False, False, True),
        *(True, True),
    ]


@given(
    wait=st.integers(0, 10**9),
    written=st.integers(0, 10**12),
    now=st.integers(0, 10**12),
    longest=st.none() | st.integers(0, 10**9),
)
def test_nothing_waits_longer_than_it_was_to_whatever_the_clock_says(
    wait: int, written: int, now: int, longest: int | None
) -> None:
    due = Instant(written + wait)
    drawn = drawn_in(due, Instant(written), Instant(now), longest)
    assert drawn <= due
    assert drawn - now <= min(wait, wait if longest is None else longest)
    if written <= now and (longest is None or due - now <= longest):
        assert drawn == due, "the clock only went forward"


def test_the_fake_clock_moves_only_forward() -> None:
    clock = FakeClock()
    assert clock.now() == clock.now() == START
    assert clock.advance(seconds=1.5) == START + 1500
    assert clock.advance(milliseconds=1) == START + 1501
    with pytest.raises(ValueError, match="go back"):
        clock.advance(seconds=-1)


_TABLE = {
    # phase: (ad-hoc task, task of a slice, slice, milestone), with gates and a complete plan from above
    Phase.RESEARCH: (True, False, False, True),
    Phase.PLAN: (True, False, False, True),
    Phase.EXECUTE: (True, True, True, True),
    Phase.TDD: (True, True, False, False),
    Phase.VERIFY: (True, True, True, True),
    Phase.REVIEW: (True, False, True, False),
    Phase.UAT: (True, False, True, True),
    Phase.MERGE: (True, True, True, False),
}


@pytest.mark.parametrize("phase", list(_TABLE))
def test_what_a_phase_means_at_each_level(phase: Phase) -> None:
    gates = ("gate",)
    cases = (
        (unit(), Facts(gates=gates)),
        (unit(parent_id="slice/m1/s1"), Facts(gates=gates, planned_above=True, plan_complete=True)),
        (
            unit(type="slice", parent_id="milestone/m1"),
            Facts(gates=gates, has_children=True, planned_above=True),
        ),
        (unit(type="milestone"), Facts(gates=gates)),
    )
    assert tuple(applies(phase, found, facts) for found, facts in cases) == _TABLE[phase]


def test_a_replanned_unit_plans_again_and_no_gate_means_no_verify() -> None:
    inherited = Facts(planned_above=True, plan_complete=True)
    assert applies(Phase.PLAN, unit(parent_id="slice/m1/s1", plan_version=2), inherited)
    assert applies(Phase.PLAN, unit(type="slice", plan_version=2), Facts(has_children=True))
    assert not applies(Phase.VERIFY, unit(), Facts())
    assert applies(Phase.MERGE, unit(type="milestone"), Facts(mode="milestone-per-worktree"))
    assert not applies(Phase.MERGE, unit(type="slice"), Facts(mode="milestone-per-worktree"))
