"""Which work a phase means: the agent's, the gates', the review's or the merge's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.harness import work
from sf.harness.attempt import Finished, Job, attempt
from sf.harness.desk import Desk
from sf.review.gates import verify
from sf.review.passes import review
from sf.scheduler.merging import merge

Conduct = Callable[[Unit, Lease], Awaitable[Finished]]
"""What carries a claimed run out: the seam at which other workers slot in."""

JOBS: dict[Phase, Job] = {
    **work.BY_PHASE,
    Phase.VERIFY: verify,
    Phase.REVIEW: review,
    Phase.MERGE: merge,
}


def inline(desk: Desk) -> Conduct:
    """Runs carried out in this process."""

    async def conduct(unit: Unit, lease: Lease) -> Finished:
        return await attempt(desk, unit, lease, JOBS[unit.phase])

    return conduct
