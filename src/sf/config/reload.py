"""Live reload: a stamp looked at on every tick, last known good on errors, drift for what must not change."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from sf.config.schema import SESSION_IMMUTABLE, Config
from sf.errors import InvalidConfig, Mistake


class Stamp(msgspec.Struct, frozen=True):
    """What tells one content of a file from another."""

    mtime_ns: int
    size: int
    sha256: str


class Drift(msgspec.Struct, frozen=True):
    """A session-immutable key whose file says something else than the session uses."""

    key: str
    running: str
    file: str

    def told(self) -> str:
        """The difference in words."""
        return f"{self.key}: runs with {self.running}, the file says {self.file}"


class Reloaded(msgspec.Struct, frozen=True):
    """What a changed file led to: a new configuration, or the problems that kept the old one."""

    problems: tuple[str, ...]
    drift: tuple[Drift, ...]


class LiveConfig:
    """The configuration in force, and the files it is watched in."""

    def __init__(
        self,
        config: Config,
        files: tuple[Path, ...],
        load: Callable[[], Awaitable[Config]],
        *,
        setting: Callable[[], object] = lambda: None,
        is_settled: Callable[[], bool] = lambda: True,
    ) -> None:
        """`setting` is what besides the files decides; nothing is read while things are not settled."""
        self.current = config
        self._setting = setting
        self._is_settled = is_settled
        self._known_setting = setting()
        self.drift: tuple[Drift, ...] = ()
        self._files = files
        self._load = load
        self._stamps = [_stamp(file, None) for file in files]

    async def poll(self) -> Reloaded | None:
        """Look at the files; None when nothing changed. Never raises for what a file says, or does not."""
        stamps = [_stamp(file, old) for file, old in zip(self._files, self._stamps, strict=True)]
        setting = self._setting()
        before = [s and s.sha256 for s in self._stamps], self._known_setting
        if ([s and s.sha256 for s in stamps], setting) == before:
            self._stamps = stamps
            return None
        if not self._is_settled():
            return None
        self._stamps, self._known_setting = stamps, setting
        try:
            fresh = await self._load()
        except InvalidConfig as error:
            return Reloaded(error.problems or (error.message,), self.drift)
        except Mistake as error:
            return Reloaded((error.message,), self.drift)
        except OSError as error:
            return Reloaded((f"a configuration file cannot be read: {error}",), self.drift)
        drift, kept = _drift(self.current, fresh), _keeping(self.current, fresh)
        if (drift, kept) == (self.drift, self.current):
            return None
        self.drift, self.current = drift, kept
        return Reloaded((), self.drift)


def _stamp(file: Path, old: Stamp | None) -> Stamp | None:
    try:
        stat = file.stat()
        if old is not None and (stat.st_mtime_ns, stat.st_size) == (old.mtime_ns, old.size):
            return old
        return Stamp(stat.st_mtime_ns, stat.st_size, hashlib.sha256(file.read_bytes()).hexdigest())
    except OSError:
        return None


def _keeping(running: Config, fresh: Config) -> Config:
    for table, key in SESSION_IMMUTABLE:
        kept = {key: getattr(getattr(running, table), key)}
        fresh = msgspec.structs.replace(
            fresh, **{table: msgspec.structs.replace(getattr(fresh, table), **kept)}
        )
    return fresh


def _drift(running: Config, fresh: Config) -> tuple[Drift, ...]:
    found = []
    for table, key in SESSION_IMMUTABLE:
        before, after = (getattr(getattr(config, table), key) for config in (running, fresh))
        if before != after:
            found.append(Drift(f"{table}.{key}", str(before), str(after)))
    return tuple(found)
