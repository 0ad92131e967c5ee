"""The deep scan of `sf init`: files and history together, the findings kept in `.sf/survey.json`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from sf.app.trust import require_own_folder
from sf.domain.past import PastCommit
from sf.errors import SfError
from sf.paths import Project
from sf.survey import findings, scan
from sf.survey.crew import Examined
from sf.survey.findings import Findings
from sf.survey.history import MAX_COMMITS
from sf.survey.tree import Tree
from sf.workspaces import chronicle
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

Told = Callable[[int, int], None]


def survey(project: Project, told: Told = lambda done, total: None) -> Findings:
    """Scan a project and keep what was found; `told` hears how many files of how many are done.

    Nothing but the file of findings is written, and that at the end: an interrupted scan leaves the last one.
    """
    seen = asyncio.run(_look(project, told))
    # Not inside the event loop: there an interrupt would wait for the end of it.
    found = scan.conclude(
        seen.tree,
        seen.examined,
        seen.commits,
        head=seen.head,
        complete=seen.complete,
        now=int(time.time()),
        trouble=[seen.trouble],
    )
    require_own_folder(project.dot)
    findings.keep(found, project.survey)
    return found


class _Seen(msgspec.Struct, frozen=True):
    head: str
    tree: Tree
    examined: Examined
    commits: list[PastCommit]
    complete: bool
    trouble: str


async def _look(project: Project, told: Told) -> _Seen:
    git = Git()
    user = await UserRepository.open(project.root, project.facade, git)
    head = (await user.head()).commit or ""
    tree = Tree.of(project.root, await user.tracked_files())
    reading = asyncio.create_task(_history(user, git))
    try:
        examined = await scan.look(tree, told)
        (commits, complete), trouble = await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return _Seen(head, tree, examined, commits, complete, trouble)


async def _history(user: UserRepository, git: Git) -> tuple[tuple[list[PastCommit], bool], str]:
    try:
        return await chronicle.newest(user, git, MAX_COMMITS), ""
    except SfError as error:
        return ([], False), f"the history could not be read: {error.message}"
