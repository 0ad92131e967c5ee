"""Which commits undo a unit: pure choice from what messages name."""

from __future__ import annotations

import re
import subprocess

import pytest

from sf.domain.reverting import (
    Authored,
    Step,
    choose,
    has_subject,
    is_within,
    named_units,
    naming_pattern,
    revert_message,
    work_subject,
)

M, S, T1, T2 = "milestone/m1", "slice/m1/s1", "task/m1/s1/t1", "task/m1/s1/t2"


def commit(name: str, *units: str, parents: tuple[str, ...] = ("p",), subject: str = "x") -> Authored:
    return Authored(name, parents, subject, 1, frozenset(units))


@pytest.mark.parametrize(
    ("message", "units"),
    [
        ("x\n\nSf-Unit: task/a1\nSf-Attempt: 2\n", {"task/a1"}),
        ("x\n\n    Sf-Unit: task/a1\r\n\n    Sf-Unit: task/a2  \n", {"task/a1", "task/a2"}),
        ("about Sf-Unit: task/a1\n\nNot-Sf-Unit: task/a2\nSf-Unit:task/a3\n", set()),
        ('Revert "x"\n\nThis reverts commit abc.\n\nSf-Reverted: task/a1\n', set()),
    ],
)
def test_units_are_read_from_lines_of_their_own(message: str, units: set[str]) -> None:
    assert named_units(message) == units


@pytest.mark.parametrize(
    ("top", "inside", "outside"),
    [
        (M, [M, S, T1, "task/m1/s12/t3"], ["milestone/m11", "slice/m11/s1", "task/m11/s1/t1", "task/a1"]),
        (S, [S, T1, T2], [M, "slice/m1/s11", "task/m1/s11/t1", "task/m11/s1/t1"]),
        (T1, [T1], [S, "task/m1/s1/t11", T2]),
        ("task/a1", ["task/a1"], ["task/a11", "task/m1/s1/t1"]),
    ],
)
def test_a_unit_and_what_is_below_it_and_nothing_else(
    top: str, inside: list[str], outside: list[str]
) -> None:
    def matches(name: str) -> bool:
        found = subprocess.run(
            ["grep", "-E", naming_pattern(top)], input=f"x\n Sf-Unit: {name}\n", text=True, check=False
        )
        return found.returncode == 0

    for name in inside:
        assert is_within(name, top) and matches(name), name
    for name in outside:
        assert not is_within(name, top) and not matches(name), name


def test_a_merge_of_the_units_work_alone_stands_for_all_of_it() -> None:
    work = [commit("b", T2), commit("a", T1)]
    merge = commit("m", S, parents=("p", "b"))
    chosen = choose([merge, *work], {"m": work}, S, set())
    assert [(step.commit, step.back_to, step.is_merge, step.brought) for step in chosen.steps] == [
        ("m", "p", True, 2)
    ]
    assert choose([merge, *work], {"m": work}, M, set()).steps == chosen.steps


@pytest.mark.parametrize("foreign", [commit("u"), commit("u", "task/a9")])
def test_a_merge_with_the_work_of_others_is_taken_apart(foreign: Authored) -> None:
    work = [commit("b", T2), foreign, commit("a", T1)]
    merge = commit("m", S, parents=("p", "b"))
    chosen = choose([merge, work[0], work[2]], {"m": work}, S, set())
    assert [step.commit for step in chosen.steps] == ["b", "a"]
    assert chosen.joining == (merge,)


def test_a_commit_that_others_share_is_never_a_step() -> None:
    squash = commit("q", T1, T2)
    assert choose([squash], {}, T1, set()).steps == ()
    assert choose([squash], {}, T1, set()).shared == (squash,)
    assert [step.commit for step in choose([squash], {}, S, set()).steps] == ["q"]


def test_what_was_reverted_before_is_left_out_but_does_not_spoil_a_merge() -> None:
    work = [commit("b", T2), commit("a", T1)]
    assert [step.commit for step in choose(work, {}, S, {T1}).steps] == ["b"]
    assert choose(work, {}, S, {T1, T2}).undone == 2
    merge = commit("m", S, parents=("p", "b"))
    assert [step.commit for step in choose([merge, *work], {"m": work}, S, {T1}).steps] == ["m"]


def test_the_first_commit_of_all_goes_back_to_nothing() -> None:
    assert choose([commit("r", T1, parents=())], {}, T1, set()).steps[0].back_to is None


def test_a_subject_may_carry_a_number_but_is_not_a_prefix() -> None:
    assert has_subject(commit("a", subject="Add it (#12)"), "Add it")
    assert has_subject(commit("a", subject="Add it"), "Add it")
    assert not has_subject(commit("a", subject="Add it all"), "Add it")


def test_a_revert_does_not_name_the_unit_as_its_maker() -> None:
    step = Step("c" * 40, "Merge it", 1, "d" * 40, is_merge=True, brought=1)
    message = revert_message(step, S)
    assert message.startswith('Revert "Merge it"\n\nThis reverts commit ' + "c" * 40)
    assert re.search(rf"reversing\nchanges made to {'d' * 40}\.", message)
    assert named_units(message) == frozenset()


def test_no_subject_of_work_names_a_unit() -> None:
    for title in ("Sf-Unit: slice/m9/s9", "  Sf-Unit: task/a2 "):
        assert named_units(title) and not named_units(work_subject(title))
    assert work_subject("Count words") == "Count words"
