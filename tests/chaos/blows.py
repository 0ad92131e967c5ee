"""What is done to a run: kills, and what a system refuses."""

from __future__ import annotations

from tests.chaos.ground import Blow

KILLS = (
    Blow("kill everything", "kill-all"),
    Blow("kill sf alone", "kill-main"),
    Blow("kill one git", "kill-one", program="git"),
    Blow("tear a write", "tear", calls=("write", "pwrite64")),
    Blow("cut the power", "kill-all", empties=True),
    Blow("roll back the names", "kill-all", journals=True),
)

FAULTS = (
    Blow("ENOSPC once", "fail", error="ENOSPC"),
    Blow("ENOSPC from then on", "fail", error="ENOSPC", lasting=True),
    Blow("EIO once", "fail", error="EIO"),
    Blow("EROFS from then on", "fail", error="EROFS", lasting=True),
    Blow("EMFILE once", "fail", error="EMFILE", kind="descriptors"),
    Blow("SQLITE_BUSY once", "fail", error="EAGAIN", kind="locks"),
)
