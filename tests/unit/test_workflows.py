"""Workflow templates: what they may say, and which one a unit gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.app import templates
from sf.app.templates import BUILT_IN, FEATURE, SPIKE
from sf.domain.phases import FORWARD, RANK, Phase
from sf.domain.workflows import fingerprint, parse
from sf.errors import InvalidWorkflow, MissingWorkflow
from sf.harness.rules import Rules
from sf.paths import Project
from tests.support.ground import Ground
from tests.support.samples import WORKFLOWS


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(root=tmp_path / "p", home=tmp_path / "home")
    made.workflows.mkdir(parents=True)
    for name, text in BUILT_IN.items():
        (made.workflows / f"{name}.toml").write_text(text)
    return made


@pytest.mark.conforms("C-01")
def test_a_template_carries_its_phases_and_limits() -> None:
    text = FEATURE + "max_fix_attempts = 5\n"
    workflow = parse(text, "feature")
    assert workflow.require_tdd
    assert workflow.require_review
    assert (workflow.max_retries, workflow.max_reassess, workflow.max_fix_attempts) == (3, 2, 5)
    assert workflow.phases[0] is Phase.RESEARCH
    assert workflow.phases[-1] is Phase.COMPLETE
    limits = Rules().limits(workflow)
    assert (limits.max_retries, limits.max_reassess, limits.max_fix_attempts) == (3, 2, 5)


@pytest.mark.conforms("C-01")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("max_retrys = 3", "max_retrys"),
        ("max_retries = -1", "negative"),
        ('max_retries = "3"', "max_retries"),
        ("phases = 3", "phases"),
        ("phases = [1]", "phase"),
        ('phases = ["plan", "deploy", "complete"]', "deploy"),
        ('phases = ["plan", "reassess", "execute", "complete"]', "reassess"),
        ('phases = ["execute", "plan", "complete"]', "order"),
        ('phases = ["execute", "execute", "complete"]', "once"),
        ('phases = ["plan", "complete"]', "execute"),
        ('phases = ["execute"]', "complete"),
        ("phases = []", "execute"),
        ('phases = ["execute", "uat", "complete"]', "require_uat"),
        ('require_tdd = true\nphases = ["execute", "complete"]', "require_tdd"),
        ('require_review = true\nphases = ["execute", "complete"]', "require_review"),
        ("phases = ", "TOML"),
    ],
)
def test_what_a_template_may_not_say_is_refused_by_name(change: str, named: str) -> None:
    text = 'name = "x"\n' + ("" if "phases" in change else 'phases = ["execute", "complete"]\n') + change
    with pytest.raises(InvalidWorkflow, match=named) as refused:
        parse(text, "x.toml")
    assert refused.value.code == "workflow_parse_error"
    assert "x.toml" in refused.value.message


@given(st.lists(st.sampled_from(list(FORWARD)), unique=True))
def test_a_template_is_taken_exactly_when_its_phases_are_in_order_and_whole(phases: list[Phase]) -> None:
    names = ", ".join(f'"{phase}"' for phase in phases)
    uat = "true" if Phase.UAT in phases else "false"
    text = f'name = "x"\nphases = [{names}]\nrequire_uat = {uat}\n'
    sound = (
        phases == sorted(phases, key=RANK.__getitem__)
        and Phase.EXECUTE in phases
        and phases[-1:] == [Phase.COMPLETE]
    )
    try:
        workflow = parse(text, "x")
    except InvalidWorkflow:
        assert not sound
    else:
        assert sound
        walked = [workflow.phases[0]]
        while walked[-1] is not Phase.COMPLETE:
            walked.append(workflow.after(walked[-1]))
        assert walked == phases


@pytest.mark.conforms("C-53")
def test_acceptance_belongs_to_the_workflow_that_asks_for_it() -> None:
    assert WORKFLOWS["release"].require_uat
    assert WORKFLOWS["release"].has(Phase.UAT)
    assert not WORKFLOWS["feature"].has(Phase.UAT)


@pytest.mark.conforms("C-52")
def test_a_workflow_is_chosen_by_the_goal_then_the_configuration_then_the_built_in(project: Project) -> None:
    assert templates.choose(project, "spike", "release")[0].name == "spike"
    assert templates.choose(project, None, "release")[0].name == "release"
    assert templates.choose(project, None, "")[0].name == "feature"
    (project.workflows / "feature.toml").unlink()
    assert templates.choose(project, None, "")[0].name == "release"


@pytest.mark.conforms("C-52")
def test_a_missing_workflow_is_a_typed_mistake_with_the_nearest_name(project: Project) -> None:
    with pytest.raises(MissingWorkflow) as missing:
        templates.choose(project, "featur", "")
    assert missing.value.code == "missing_workflow_file"
    assert "feature" in missing.value.hint


@pytest.mark.conforms("C-52", "C-71")
def test_a_unit_keeps_the_workflow_it_was_planted_with(ground: Ground) -> None:
    ground.plant("spike", adhoc=True)
    unit = ground.unit("task/a1")
    assert (unit.workflow, unit.workflow_hash) == ("spike", fingerprint(SPIKE))
    row = ground.read.one("SELECT content FROM workflow_pins WHERE hash = :h", h=unit.workflow_hash)
    assert row is not None
    assert row["content"] == SPIKE


def test_every_template_of_a_project_is_checked(project: Project) -> None:
    assert {w.name for w in templates.check_all(project)} == {"feature", "release", "spike"}
    (project.workflows / "broken.toml").write_text("phases = 1")
    with pytest.raises(InvalidWorkflow, match="broken"):
        templates.check_all(project)
