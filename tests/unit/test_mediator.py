"""One way to act: each step of the mediator refuses what it is there for, and the first refusal wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sf.domain.phases import WRITING, Phase
from sf.policy import mediator
from sf.policy.mediator import STEPS, Action, Circumstances, Decision, decide


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def where(root: Path, **changes: Any) -> Circumstances:
    values: dict[str, Any] = {"unit_id": "task/a1", "phase": Phase.EXECUTE, "root": root}
    return Circumstances(**{**values, **changes})


READ = Action("read_file", "read", ("a.py",))
WRITE = Action("write_file", "write", ("src/a.py",))
RUN = Action("bash", "exec", (), "ls")
SUBMIT = Action("submit_plan", "submit")


def test_ordinary_work_is_allowed(root: Path) -> None:
    for action in (READ, WRITE, RUN, SUBMIT):
        assert decide(action, where(root)).verdict == "allow"


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in WRITING])
def test_phases_that_only_read_neither_write_nor_run(root: Path, phase: Phase) -> None:
    assert decide(READ, where(root, phase=phase)).verdict == "allow"
    assert decide(SUBMIT, where(root, phase=phase)).verdict == "allow"
    for action in (WRITE, RUN):
        decision = decide(action, where(root, phase=phase))
        assert (decision.verdict, decision.step) == ("block", "phase")


def test_commands_on_the_denylist_are_refused_before_anything_else(root: Path) -> None:
    decision = decide(Action("bash", "exec", (), "git push origin main"), where(root, phase=Phase.PLAN))
    assert (decision.verdict, decision.step, decision.risk) == ("block", "denylist", 1.0)
    assert decision.reason


def test_paths_stay_inside_and_the_units_own_folder_is_only_read(root: Path) -> None:
    own = root.parent / "own"
    own.mkdir()
    (own / "plan.md").write_text("x")
    path = str(own / "plan.md")
    assert decide(Action("read_file", "read", (path,)), where(root, reading=(own,))).verdict == "allow"
    for action in (Action("write_file", "write", (path,)), Action("read_file", "read", ("../x",))):
        decision = decide(action, where(root, reading=(own,)))
        assert (decision.verdict, decision.step) == ("block", "containment")


def test_writes_stay_in_the_plans_areas_and_off_what_is_protected(root: Path) -> None:
    bound = where(root, allowed_areas=("src/**",), forbidden_areas=("src/secret/**",))
    assert decide(WRITE, bound).verdict == "allow"
    for path in ("docs/x.md", "src/secret/x.py", ".git/config", ".sf/config.toml"):
        decision = decide(Action("write_file", "write", (path,)), bound)
        assert (decision.verdict, decision.step) == ("block", "areas"), path
    decision = decide(Action("write_file", "write", (".git/hooks/pre-commit",)), where(root))
    assert decision.verdict == "block"


def test_an_area_is_judged_by_where_a_path_leads(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "src").mkdir()
    (root / "src" / "link").symlink_to("../docs")
    decision = decide(Action("write_file", "write", ("src/link/x",)), where(root, allowed_areas=("src/**",)))
    assert decision.verdict == "block"
    decision = decide(
        Action("write_file", "write", ("src/../docs/x",)), where(root, allowed_areas=("src/**",))
    )
    assert decision.verdict == "block"


def test_no_command_without_its_sandbox(root: Path) -> None:
    decision = decide(RUN, where(root, sandboxed=False))
    assert (decision.verdict, decision.step) == ("block", "sandbox")
    assert decide(WRITE, where(root, sandboxed=False)).verdict == "allow"


def test_the_first_refusal_wins(root: Path) -> None:
    def no(name: str) -> mediator.Step:
        return lambda action, circumstances: Decision("block", name)

    assert decide(READ, where(root), [lambda a, c: None, no("second"), no("third")]).step == "second"
    assert next(step.__name__ for step in STEPS) == "denylist"


def test_a_worktree_reached_through_a_link_is_judged_too(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root, target_is_directory=True)
    assert decide(WRITE, where(alias, allowed_areas=("src/**",))).verdict == "allow"
    assert decide(WRITE, where(alias, allowed_areas=("docs/**",))).verdict == "block"
