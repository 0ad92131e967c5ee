"""The memory that a configuration names, the bank of a project in it, and what `sf memory` does with both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from sf import files
from sf.app import stores
from sf.app.trust import load_config, load_trusted
from sf.config.schema import Config
from sf.domain.clock import SystemClock
from sf.domain.knowledge import GLOBAL_BANK, TELLING, Lesson, canonical_remote, project_bank, project_hash
from sf.errors import MemoryRefused, MemoryUnavailable, WrongState
from sf.memory import BankSize, Memory
from sf.paths import Project
from sf.secrets import from_command
from sf.store import knowledge
from sf.store.connection import open_reader, transact
from sf.survey.findings import Findings
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

T = TypeVar("T")
_CACHE = "project-hash.json"
_PATIENCE = 30.0
"""Seconds that a person waits, where a run would not."""


class _Cached(msgspec.Struct, frozen=True):
    hash: str
    source: str


def open_memory(project: Project, config: Config) -> Memory | None:
    """The memory as configured, being opened meanwhile; None when it is switched off."""
    settings = config.memory
    if settings.mode == "off":
        return None
    if settings.mode == "remote":
        from sf.memory.remote import RemoteMemory

        return RemoteMemory(settings.url, from_command("the key command of [memory]", settings.api_key))
    from sf.memory.embedded import EmbeddedMemory, Embedding

    key = settings.embedder_key and from_command("the key command of [memory]", settings.embedder_key)
    chosen = Embedding(settings.embedder, settings.embedder_model, settings.embedder_url, key)
    memory = EmbeddedMemory(memory_file(project, config), chosen)
    memory.warm()
    return memory


def memory_file(project: Project, config: Config) -> Path:
    """Where the embedded memory is: one for all projects of a user, so that what is general serves all."""
    named = config.memory.path
    return Path(named).expanduser() if named else project.home / "memory" / "memory.db"


async def bank_of(project: Project, user: UserRepository) -> str:
    """The project's bank: by its remote, else by its place; kept once it is known."""
    cache = project.runtime / _CACHE
    try:
        known = msgspec.json.decode(cache.read_bytes(), type=_Cached)
    except (OSError, msgspec.DecodeError):
        known = _derived(project, await user.origin())
        cache.parent.mkdir(parents=True, exist_ok=True)
        files.put(cache, msgspec.json.encode(known))
    return project_bank(known.hash)


def _derived(project: Project, origin: str) -> _Cached:
    if origin:
        return _Cached(project_hash(canonical_remote(origin)), "remote")
    return _Cached(project_hash(os.path.realpath(project.root)), "path")


class Known(msgspec.Struct, frozen=True):
    """An entry as a person is shown it."""

    id: str
    bank: str
    score: float
    content: str
    tags: tuple[str, ...]


class Remembered(msgspec.Struct, frozen=True):
    """How many findings the memory has taken, and what kept the rest."""

    count: int
    trouble: str = ""


class Stats(msgspec.Struct, frozen=True):
    """Where the memory is, what it holds, and what waits to be delivered."""

    place: str
    embedder: str
    bank: str
    banks: list[BankSize]
    waiting: int
    error: str


def recall(project: Project, query: str, most: int, *, everything: bool = False) -> list[Known]:
    """What a prompt about this would be told, mistakes included, best first; or also what is far from it."""

    async def ask(memory: Memory, bank: str, config: Config) -> list[Known]:
        found = []
        for name in (bank, GLOBAL_BANK):
            answer = await memory.recall(name, query, top_k=most, deadline=_PATIENCE)
            found += [
                Known(e.id, name, e.score, e.content, e.tags)
                for e in answer.entries
                if everything or e.score >= TELLING
            ]
        return sorted(found, key=lambda each: -each.score)[:most]

    return _with_memory(project, ask)


def retain(project: Project, text: str, tags: tuple[str, ...], *, everywhere: bool) -> str:
    """Keep what a person says; its id. Raises MemoryRefused with the reason."""

    async def ask(memory: Memory, bank: str, config: Config) -> str:
        kept = (await memory.retain(GLOBAL_BANK if everywhere else bank, [Lesson(text, tags)]))[0]
        if kept.refused:
            raise MemoryRefused(f"not kept: {kept.refused}")
        return kept.id

    return _with_memory(project, ask)


def remember_survey(project: Project, found: Findings) -> Remembered:
    """Keep what a scan found in the project's bank; a memory that is away gets it later.

    A later scan says the same things anew, so each replaces what it said before.
    """
    lessons = [
        Lesson(note.text, ("kind:survey", f"survey:{note.kind}"), {}, f"survey-{note.key}")
        for note in found.notes()
    ]

    # Before an event loop runs: finding the store may need one of its own.
    place = stores.place_of(project)
    station = "" if isinstance(place, Path) else project.key

    async def ask(memory: Memory, bank: str, config: Config) -> Remembered:
        try:
            kept = await memory.retain(bank, lessons)
        except MemoryUnavailable as error:
            now = SystemClock().now()
            transact(place, lambda tx: knowledge.enqueue(tx, bank, lessons, now, station))
            return Remembered(0, f"{len(lessons)} findings wait for the memory: {error.message}")
        return Remembered(sum(not each.refused for each in kept))

    if not lessons or load_config(project).memory.mode == "off":
        return Remembered(0)
    return _with_memory(project, ask)


def forget(project: Project, ids: tuple[str, ...]) -> int:
    """Remove entries of the project's bank or the global one; how many there were."""

    async def ask(memory: Memory, bank: str, config: Config) -> int:
        gone = sum([await memory.forget(name, ids=ids) for name in (bank, GLOBAL_BANK)])
        if not gone:
            raise MemoryRefused("there is no such entry", hint="sf memory recall shows the ids")
        return gone

    return _with_memory(project, ask)


def stats(project: Project) -> Stats:
    """What there is."""
    waits = knowledge.waiting(open_reader(stores.place_of(project)))

    async def ask(memory: Memory, bank: str, config: Config) -> Stats:
        health = await memory.health()
        return Stats(health.place, health.embedder, bank, await memory.banks(), waits.count, waits.error)

    return _with_memory(project, ask)


def _with_memory(project: Project, ask: Callable[[Memory, str, Config], Awaitable[T]]) -> T:
    async def run() -> T:
        user = await UserRepository.open(project.root, project.facade, Git())
        config = await load_trusted(project, user)
        memory = open_memory(project, config)
        if memory is None:
            raise WrongState("the memory is switched off", hint='set [memory] mode = "embedded"')
        try:
            return await ask(memory, await bank_of(project, user), config)
        finally:
            await memory.aclose()

    return asyncio.run(run())
