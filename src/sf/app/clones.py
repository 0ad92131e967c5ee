"""Whether a folder is a clone of the repository that its store belongs to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sf.domain.clock import SystemClock
from sf.errors import StoreForeign
from sf.paths import Project
from sf.store import roots
from sf.store.connection import transact
from sf.store.place import Place
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository


def require_kin(project: Project, place: Place) -> None:
    """The same for a command that only steers, where one look at what is on record tells mostly enough."""
    if _is_shared(place):
        # Not in a thread, which Ctrl-C would wait for when the server is silent.
        asyncio.run(_require_kin(project, place, transact(place, roots.known)))


async def _require_kin(project: Project, place: Place, known: list[str]) -> None:
    user = await UserRepository.open(project.root, project.facade, Git())
    if not await user.has_any(known):
        await require(project, place, user)


def _is_shared(place: Place) -> bool:
    return not isinstance(place, Path) and not place.schema


async def require(project: Project, place: Place, user: UserRepository) -> None:
    """Raise StoreForeign where a store is another repository's: its goals would be worked on in this one.

    Only a schema that a url names can be: any other has the project's own name. A clone that lacks the
    beginning of its history cannot tell, and is believed.
    """
    if not _is_shared(place):
        return
    firsts, now = await user.first_commits(), SystemClock().now()
    if firsts is None:
        return
    known = await asyncio.to_thread(transact, place, roots.known)
    if firsts and set(firsts) <= set(known):
        return
    kin = await user.has_any(known)
    ours = await asyncio.to_thread(
        transact, place, lambda tx: roots.belongs(tx, firsts, project.key, now, is_kin=kin)
    )
    if not ours:
        raise StoreForeign(
            f"{place} is the store of another repository, with which {project.root} has no commit in common",
            hint="name another schema in store.url; without ?options= each project has its own",
        )
