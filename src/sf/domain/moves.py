"""The permitted changes of phase."""

from __future__ import annotations

from sf.domain.phases import Phase
from sf.domain.workflows import Workflow
from sf.errors import InvalidTransition

_BACK = frozenset({Phase.VERIFY, Phase.REVIEW, Phase.MERGE})


def permitted(workflow: Workflow, origin: Phase, to: Phase) -> bool:
    """Whether the harness may move a unit of this workflow from one phase to the other."""
    if origin is Phase.COMPLETE:
        return False
    if to is Phase.REASSESS:
        return origin is not Phase.REASSESS
    if origin is Phase.REASSESS:
        return to is Phase.COMPLETE or to is workflow.at_or_after(Phase.PLAN)
    if origin in _BACK and to is Phase.EXECUTE:
        return True
    return to is workflow.after(origin)


def require(workflow: Workflow, origin: Phase, to: Phase) -> None:
    """Raise InvalidTransition unless the change is permitted."""
    if not permitted(workflow, origin, to):
        raise InvalidTransition(f"{origin} → {to} is not permitted in workflow {workflow.name!r}")
