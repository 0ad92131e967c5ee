"""The configuration read again while a session runs: the operator's changes count, the checkout's do not.

A project's file may go away (`git stash -u`) or be replaced by another branch's. Then what the session took
last stays, and changes of the operator's own file are still heard.
"""

from __future__ import annotations

from pathlib import Path

from sf import files
from sf.app.trust import PROJECT_FILE, load_trusted
from sf.config.schema import Config
from sf.errors import InvalidConfig
from sf.paths import Project
from sf.workspaces.repository import UserRepository

_TAKEN = "config.toml"
"""In `.sf/runtime/`: the project's file as it was taken last, while the checkout has another or none."""


class Rereading:
    """What a session has taken of its configuration files, and the taking of what has changed since."""

    def __init__(self, project: Project, user: UserRepository) -> None:
        self._project = project
        self._user = user
        self._home = user.branch_out()
        self._own: bytes | None = None
        self._projects: bytes | None = None
        self._tracked = False

    async def begin(self) -> Config:
        """The configuration in force. Raises InvalidConfig or UnsafeConfig."""
        config = await load_trusted(self._project, self._user)
        await self._take()
        return config

    async def again(self) -> Config:
        """The configuration as it is now. Raises InvalidConfig where what changed says nothing to it."""
        own = _content(self._project.global_config)
        if self._own is not None and own is None:
            raise _not_taken(f"{self._project.global_config} is gone")
        foreign = await self._foreign()
        if not foreign:
            return await self.begin()
        if own == self._own:
            raise _not_taken(foreign)
        taken = self._project.runtime / _TAKEN
        taken.parent.mkdir(parents=True, exist_ok=True)
        files.put(taken, self._projects or b"")
        config = await load_trusted(self._project, self._user, taken=(taken, self._tracked))
        self._own = own
        return config

    async def _foreign(self) -> str:
        """Why the project's file says nothing about this session; empty when it does."""
        file = self._project.config
        try:
            content = _content(file)
        except InvalidConfig as error:
            return error.problems[0]
        if self._projects is not None and content is None:
            return f"{file} is gone"
        if content == self._projects:
            return ""
        branch = self._user.branch_out()
        if branch != self._home and PROJECT_FILE in await self._user.tracked_files():
            return f"{file} is that of {branch or 'a commit'}, which you have checked out since"
        return ""

    async def _take(self) -> None:
        self._own = _content(self._project.global_config)
        self._projects = _content(self._project.config)
        self._tracked = PROJECT_FILE in await self._user.tracked_files()


def _content(file: Path) -> bytes | None:
    """What a file says, None when there is none. Raises InvalidConfig for one that cannot be read."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_taken(f"{file} cannot be read: {error.strerror}") from error


def _not_taken(why: str) -> InvalidConfig:
    return InvalidConfig("a configuration file that is not this session's", problems=(why,))
