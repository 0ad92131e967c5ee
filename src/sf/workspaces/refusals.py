"""Refusals that leave everything as it was: the caller waits or starts again from the new state."""

from __future__ import annotations

from sf.errors import SfError


class CheckoutBusy(SfError):
    """The user's checkout holds something that a landing would disturb; nothing was moved.

    The paths are those of what must go, or, where they are `tracked`, of what must be as it was committed.
    """

    code = "checkout_dirty"

    def __init__(
        self, message: str, *, paths: tuple[str, ...] = (), tracked: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.paths = paths
        self.tracked = tracked


class BranchMoved(SfError):
    """A ref no longer has the value that the caller started from; nothing was moved."""

    code = "branch_moved"

    def __init__(self, message: str, *, actual: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.actual = actual


class RevertConflict(SfError):
    """What a commit changed was changed again later, so it cannot be undone alone; nothing was moved."""

    code = "revert_conflict"
    exit_code = 3

    def __init__(self, message: str, *, paths: tuple[str, ...], later: tuple[str, ...], hint: str) -> None:
        super().__init__(message, hint=hint)
        self.paths = paths
        self.later = later
