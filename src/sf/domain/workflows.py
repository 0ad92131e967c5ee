"""Workflow templates: the phase sequence that the harness enforces for a class of work."""

from __future__ import annotations

import functools
import hashlib
import tomllib

import msgspec

from sf.domain.phases import FORWARD, RANK, Phase
from sf.errors import InvalidWorkflow


class Workflow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parsed template. `needs_evidence` false lets work end without any gate (a spike)."""

    name: str
    phases: tuple[Phase, ...]
    require_tdd: bool = False
    require_review: bool = False
    require_uat: bool = False
    max_retries: int = 3
    max_reassess: int = 2
    max_fix_attempts: int = 3
    needs_evidence: bool = True

    def after(self, phase: Phase) -> Phase:
        """The next phase that the template has."""
        return next(candidate for candidate in self.phases if RANK[candidate] > RANK[phase])

    def at_or_after(self, phase: Phase) -> Phase:
        """The phase itself where the template has it, else the next one that it has."""
        return next(candidate for candidate in self.phases if RANK[candidate] >= RANK[phase])

    def has(self, phase: Phase) -> bool:
        """Whether the template names this phase."""
        return phase in self.phases


def fingerprint(content: str) -> str:
    """The hash under which a template's content is pinned."""
    return hashlib.sha256(content.encode()).hexdigest()


@functools.lru_cache(maxsize=64)
def parse(content: str, source: str) -> Workflow:
    """Read a template; `source` names it in errors. Raises InvalidWorkflow with every problem."""
    try:
        raw = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise InvalidWorkflow(f"{source}: not valid TOML: {error}") from None
    named = raw.get("phases", [])
    unknown = [name for name in named if name not in list(FORWARD)] if isinstance(named, list) else []
    if unknown:
        allowed = ", ".join(FORWARD)
        raise InvalidWorkflow(f"{source}: unknown phase {', '.join(map(repr, unknown))}; allowed: {allowed}")
    try:
        workflow = msgspec.convert(raw, Workflow)
    except msgspec.ValidationError as error:
        raise InvalidWorkflow(f"{source}: {error}") from None
    problems = _problems(workflow)
    if problems:
        raise InvalidWorkflow(f"{source}: " + "; ".join(problems))
    return workflow


def _problems(workflow: Workflow) -> list[str]:
    phases = workflow.phases
    found = []
    if [RANK[p] for p in phases] != sorted({RANK[p] for p in phases}):
        found.append(f"phases must each appear once, in the order {', '.join(FORWARD)}")
    if Phase.EXECUTE not in phases or not phases or phases[-1] is not Phase.COMPLETE:
        found.append("phases must contain execute and end with complete")
    for phase, required, key in (
        (Phase.TDD, workflow.require_tdd, "require_tdd"),
        (Phase.REVIEW, workflow.require_review, "require_review"),
        (Phase.UAT, workflow.require_uat, "require_uat"),
    ):
        if required and phase not in phases:
            found.append(f"{key} = true but phases has no {phase}")
    if Phase.UAT in phases and not workflow.require_uat:
        found.append("phases has uat but require_uat is not true")
    if Phase.MERGE in phases and not workflow.needs_evidence:
        found.append("needs_evidence = false is only for workflows that do not merge")
    if min(workflow.max_retries, workflow.max_reassess, workflow.max_fix_attempts) < 0:
        found.append("limits must not be negative")
    return found
