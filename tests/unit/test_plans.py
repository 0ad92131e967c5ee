"""Plans: the rules that a submission must keep, and plan.md written and read back."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.domain import plans
from sf.domain.plans import Plan, SliceEntry, TaskEntry
from sf.errors import InvalidPlan
from sf.testing.clock import START
from tests.support.samples import milestone_plan, piece, slice_plan, task, task_plan

NAMES = st.sampled_from("abcdefg")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple), max_size=7)
WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1, max_size=40
).filter(lambda text: text.strip() != "" and not text.lstrip().startswith("#"))
PROSE = st.lists(WORDS, min_size=1, max_size=3).map("\n".join)


def reaches(edges: dict[str, tuple[str, ...]], start: str) -> bool:
    """Whether a node can be reached from itself: the slow and plain way."""
    seen: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            waiting += edges.get(name, ())
    return False


@given(GRAPHS)
def test_a_cycle_is_found_exactly_when_there_is_one(edges: dict[str, tuple[str, ...]]) -> None:
    cycle = plans.find_cycle(edges)
    assert bool(cycle) == any(reaches(edges, name) for name in edges)
    if cycle:
        assert cycle[0] == cycle[-1]
        steps = list(itertools.pairwise(cycle))
        assert all(after in edges[before] for before, after in steps), "each step is an edge of the graph"


PLANS = st.builds(
    Plan,
    goal=PROSE,
    approach=st.just("") | PROSE,
    deliverables=st.lists(WORDS, min_size=1, max_size=4).map(tuple),
    verification=st.lists(WORDS, max_size=3).map(tuple),
    notes=st.just("") | PROSE,
    allowed_areas=st.lists(st.sampled_from(["src/**", "tests/**"]), max_size=2).map(tuple),
    slices=st.lists(st.builds(lambda name: piece(name), WORDS), max_size=2).map(tuple),
)


def rendered(plan: Plan) -> str:
    return plans.render(plan, unit_id="task/a1", created_at=START, written_by="script:x", plan_version=3)


@pytest.mark.conforms("C-86")
@given(PLANS)
def test_what_is_rendered_is_read_back(plan: Plan) -> None:
    read = plans.parse(rendered(plan))
    assert read.fields == {
        "unit_id": "task/a1",
        "created_at": "2026-01-01T00:00:00Z",
        "written_by": "script:x",
        "plan_version": "3",
    }
    assert list(read.sections)[:5] == ["Goal", "Approach", "Deliverables", "Verification", "Notes"]
    assert read.sections["Goal"].split() == plan.goal.split()
    assert read.sections["Approach"]
    found = [line.removeprefix("- [ ] ") for line in read.sections["Deliverables"].splitlines()]
    assert found == [" ".join(item.split()) for item in plan.deliverables]
    checks = [line.removeprefix("- ") for line in read.sections["Verification"].splitlines()]
    assert checks == [" ".join(item.split()) for item in plan.verification]


@pytest.mark.conforms("C-86")
@pytest.mark.parametrize(
    "goal", ["# Add a command", "first\n# Deliverables\nsecond", "# Goal", "---\nx: y\n---"]
)
def test_headings_inside_a_text_do_not_break_the_file(goal: str) -> None:
    read = plans.parse(rendered(msgspec.structs.replace(task_plan(), goal=goal)))
    assert read.sections["Deliverables"] == "- [ ] it is there"
    assert goal.split("\n")[-1].strip("# ") in read.sections["Goal"]


@pytest.mark.conforms("C-86")
@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (lambda text: text.replace("unit_id: task/a1\n", ""), "unit_id"),
        (lambda text: text.replace("plan_version: 3\n", ""), "plan_version"),
        (lambda text: text.replace("# Approach\n", ""), "Approach"),
        (lambda text: text.replace("# Verification\n", ""), "Verification"),
        (lambda text: text.replace("the task", ""), "Goal"),
        (lambda text: text.removeprefix("---\n"), "frontmatter"),
        (lambda text: "", "frontmatter"),
    ],
)
def test_a_file_that_lacks_something_is_refused_by_name(broken: object, named: str) -> None:
    with pytest.raises(InvalidPlan, match=named):
        plans.parse(broken(rendered(task_plan())))  # type: ignore[operator]


def problems(plan: Plan, kind: str, inherited: Plan | None = None, most: int = 50) -> str:
    with pytest.raises(InvalidPlan) as refused:
        plans.check(plan, kind, most, inherited)  # type: ignore[arg-type]
    return refused.value.message


def test_sound_plans_are_accepted() -> None:
    plans.check(milestone_plan(piece("one"), piece("two", after=("one",))), "milestone", 50)
    plans.check(slice_plan(task("a"), task("b", "a")), "slice", 50)
    plans.check(task_plan(), "task", 50)


def test_every_broken_rule_is_named_at_once() -> None:
    broken = Plan(goal=" ", deliverables=(), slices=(piece("one", after=("two",)), piece("one")))
    told = problems(broken, "milestone")
    assert "goal is empty" in told
    assert "deliverables is empty" in told
    assert "titles must differ" in told
    broken = Plan(
        goal="g",
        deliverables=("d",),
        slices=(piece("one", after=("two", "three")), piece("two", after=("one",))),
    )
    told = problems(broken, "milestone")
    assert "unknown 'three'" in told
    assert "cycle" in told
    assert "one → two → one" in told or "two → one → two" in told


@pytest.mark.parametrize(
    ("plan", "kind", "told"),
    [
        (milestone_plan(), "milestone", "at least one slice"),
        (milestone_plan(SliceEntry(title="empty", tasks=())), "milestone", "at least one task"),
        (slice_plan(), "slice", "at least one task"),
        (slice_plan(task("a", "a")), "slice", "cycle"),
        (slice_plan(task(" ")), "slice", "no title"),
        (milestone_plan(piece("one")), "slice", "cannot have slices"),
        (slice_plan(task("a")), "milestone", "tasks belong into slices"),
        (slice_plan(task("a")), "task", "a task has no tasks"),
    ],
)
def test_a_plan_has_the_parts_of_its_level(plan: Plan, kind: str, told: str) -> None:
    assert told in problems(plan, kind)


def test_a_plan_has_a_largest_size() -> None:
    assert "at most 2" in problems(slice_plan(task("a"), task("b"), task("c")), "slice", most=2)
    assert "at most 1" in problems(milestone_plan(piece("one"), piece("two")), "milestone", most=1)


@pytest.mark.parametrize(
    ("areas", "fits"),
    [
        (("src/a/**",), True),
        (("src/a/b.py",), True),
        (("src/a",), True),
        (("src/**",), False),
        (("src/ab/**",), False),
        (("**",), False),
        ((), False),
    ],
)
def test_a_task_may_narrow_its_areas_and_never_widen_them(areas: tuple[str, ...], fits: bool) -> None:
    above = msgspec.structs.replace(task_plan(), allowed_areas=("src/a/**",), forbidden_areas=("src/a/x",))
    own = msgspec.structs.replace(task_plan(), allowed_areas=areas, forbidden_areas=("src/a/y",))
    if fits:
        plans.check(own, "task", 50, above)
        narrowed = plans.narrowed(own, above)
        assert narrowed.allowed_areas == areas
        assert narrowed.forbidden_areas == ("src/a/x", "src/a/y")
    else:
        problems(own, "task", above)


def test_a_plan_that_allows_everything_can_be_narrowed_to_anything() -> None:
    above = msgspec.structs.replace(task_plan(), allowed_areas=("**",))
    plans.check(msgspec.structs.replace(task_plan(), allowed_areas=("src/**",)), "task", 50, above)


def test_a_task_gets_the_plan_that_its_container_gave() -> None:
    entry = TaskEntry(title="t", deliverables=("d",), verification=("v",), allowed_areas=("src/**",))
    own = plans.plan_of_entry(entry)
    assert (own.goal, own.deliverables, own.allowed_areas) == ("t", ("d",), ("src/**",))
    plans.check(own, "task", 50)
