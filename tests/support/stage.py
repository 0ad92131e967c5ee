"""A project on disk with a scripted agent: what acceptance tests are given."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from sf.app import intake, planning
from sf.app.compose import autopilot
from sf.app.initialise import initialise
from sf.app.stores import place_of
from sf.domain import events
from sf.domain.clock import SystemClock
from sf.domain.events import Event
from sf.domain.units import Unit
from sf.paths import Project
from sf.scheduler.admission import Selection
from sf.scheduler.loop import Result
from sf.store import sessions, units
from sf.store.connection import open_reader, transact
from sf.store.tx import Tx

COMPLETE = "Done.\n<turn_status>complete</turn_status>"
GATE = """#!/bin/sh
if grep -rn BROKEN . --include='*.txt'; then echo "something is BROKEN"; exit 1; fi
"""
CONFIG = """
[harness]
retry_backoff = "10ms"
max_retry_backoff = "20ms"
tick = "100ms"
[harness.gates]
post_task = ["./.sf/gates/check.sh"]
post_slice = ["./.sf/gates/check.sh"]
[tiers.fast]
models = ["script:test"]
[tiers.standard]
models = ["script:test"]
[tiers.reasoning]
models = ["script:test"]
"""

SINGLE = CONFIG.replace("[harness]", '[harness]\nworktree_mode = "milestone-per-worktree"', 1)
"""One worktree for a whole milestone."""

SHORT = """
name = "short"
phases = ["execute", "verify", "merge", "complete"]
require_tdd = false
require_review = false
max_retries = 3
max_reassess = 2
"""
"""A workflow for a task that needs neither tests of its own nor a review."""

Turn = dict[str, Any]
Scene = dict[str, Any]


def say(text: str = COMPLETE) -> Turn:
    """A reply of words alone."""
    return {"text": text}


def call(tool: str, **arguments: Any) -> Turn:
    """A reply that asks for one tool."""
    return {"call": [{"tool": tool, "arguments": arguments}]}


def write(path: str, content: str = "text\n") -> Turn:
    """A reply that writes a file."""
    return call("write_file", path=path, content=content)


def scene(phase: str, *turns: Turn, unit: str = "*", visits: Sequence[int] = ()) -> Scene:
    """What the agent does in a phase."""
    return {"phase": phase, "unit": unit, "visits": list(visits), "turn": list(turns)}


def task(title: str, **fields: Any) -> dict[str, Any]:
    """A task of a plan, complete enough to need no plan of its own."""
    return {"title": title, "deliverables": ["it is there"], "verification": ["the gate"], **fields}


def plan_scene(*slices: dict[str, Any], **options: Any) -> Scene:
    """The milestone's plan."""
    submitted = call(
        "submit_plan", goal="the goal", approach="plainly", deliverables=["all of it"], slices=list(slices)
    )
    return scene("plan", submitted, **options)


PASSING: tuple[Scene, ...] = (
    scene("research", say("Looked around.\n<turn_status>complete</turn_status>")),
    scene("tdd", write("tests/test_it.txt", "a test\n"), say()),
    scene("review_context", say()),
    scene("review_chunk", call("submit_review", findings=[])),
    scene("review_synthesis", call("submit_synthesis", verdict="pass", summary="fine")),
)
"""Scenes for everything that a test does not care about; put them last."""


class Stage:
    """One project: its repository, its sf home, its agent's script."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.root = folder
        self.home = home
        self.project = Project(root=folder, home=home)
        self.events: list[Event] = []
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.file("notes.txt", "hello\n")
        self.commit("first")
        initialise(folder)
        self.gate("check", GATE)
        self.configure(CONFIG)
        if not self.project.global_config.exists():
            self.remember("off")

    def git(self, *arguments: str) -> str:
        """Plain git in the user's repository."""
        identity = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.root, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def file(self, name: str, content: str) -> Path:
        """Write a file of the user's."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def commit(self, message: str) -> str:
        """Commit everything of the user's."""
        self.git("add", "-A", "--", ".", ":!.sf")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def follow(self, other: Stage) -> None:
        """Become a clone of another stage's repository, which has nothing but its first commit."""
        self.git("fetch", "-q", str(other.root), "main")
        self.git("reset", "-q", "--hard", "FETCH_HEAD")

    def commit_anew(self, message: str) -> str:
        """Make the checkout's content the first commit of another history, and forget the one before."""
        commit = self.git("commit-tree", "-m", message, "HEAD^{tree}")
        self.git("reset", "-q", "--soft", commit)
        self.git("reflog", "expire", "--expire=now", "--all")
        self.git("gc", "-q", "--prune=now")
        return commit

    def gate(self, name: str, script: str) -> None:
        """Write a gate script, anew: one that is running cannot be written to."""
        (self.root / f".sf/gates/{name}.sh").unlink(missing_ok=True)
        path = self.file(f".sf/gates/{name}.sh", script)
        path.chmod(0o755)

    def hook(self, name: str, script: str) -> None:
        """Write a hook script."""
        path = self.file(f".sf/hooks/{name}.sh", script)
        path.chmod(0o755)

    def configure(self, text: str) -> None:
        """Replace the project's configuration."""
        self.project.config.write_text(text, encoding="utf-8")

    def remember(self, mode: str = "embedded", **settings: str) -> None:
        """Choose the memory, in the user's own configuration; the light model unless another is named."""
        settings = {"mode": mode, "embedder": "static", **settings}
        self.project.home.mkdir(parents=True, exist_ok=True)
        lines = [f'{key} = "{value}"' for key, value in settings.items()]
        self.project.global_config.write_text("\n".join(["[memory]", *lines, ""]), encoding="utf-8")

    def workflow(self, name: str, text: str) -> None:
        """Write a workflow template."""
        (self.project.workflows / f"{name}.toml").write_text(text, encoding="utf-8")

    def script(self, *scenes: Scene, latency_ms: int = 0, price: dict[str, float] | None = None) -> None:
        """Write the agent's playbook."""
        folder = self.project.dot / "playbooks"
        folder.mkdir(exist_ok=True)
        paid = {"price": price} if price else {}
        text = tomlkit.dumps({"name": "test", "latency_ms": latency_ms, **paid, "scene": list(scenes)})
        (folder / "test.toml").write_text(text, encoding="utf-8")

    def plan(self, goal: str = "do it", **options: Any) -> str:
        """State a goal."""
        answer = planning.plan(self.project, goal, **options)
        return str(answer["unit_id"])

    def auto(
        self, selection: Selection | None = None, watch: Callable[[Event], None] | None = None
    ) -> Result:
        """Run the autopilot to its end."""

        def seen(event: Event) -> None:
            self.events.append(event)
            if watch is not None:
                watch(event)

        return asyncio.run(autopilot(self.project, seen, selection))

    def meanwhile(self, to: str, name: str, content: str, *, unit: str = "") -> Callable[[Event], None]:
        """The user commits a file of their own when a unit, or this one, first comes to a phase."""
        done: list[Event] = []

        def watch(event: Event) -> None:
            reached = event.name == events.PHASE_CHANGE and event.data["to"] == to
            if reached and unit in ("", event.unit_id) and not done:
                done.append(event)
                self.file(name, content)
                self.commit("meanwhile")

        return watch

    def submit(self, kind: str, **payload: Any) -> dict[str, Any]:
        """Steer as a command would."""
        return intake.submit(self.project, kind, payload)

    def queue(self, kind: str, **payload: Any) -> None:
        """Write down what a command wants without waiting for the loop; for watchers inside it."""
        transact(place_of(self.project), lambda tx: sessions.intend(tx, kind, payload, SystemClock().now()))

    @property
    def read(self) -> Tx:
        """A fresh look at the database."""
        return open_reader(place_of(self.project))

    def unit(self, unit_id: str) -> Unit:
        """A unit as its row says now."""
        return units.get(self.read, unit_id)

    def path_of(self, unit_id: str) -> list[str]:
        """The phases that a unit went through, passed ones left out."""
        rows = units.transitions(self.read, unit_id)
        return [row["to_phase"] for row in rows if not str(row["reason"]).startswith("passed")]

    def named(self, name: str) -> list[Event]:
        """The events of one name, in order."""
        return [event for event in self.events if event.name == name]

    def sf(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """The command as a process, in the project."""
        return run_sf(self.root, self.home, *arguments, env=env, stdin=stdin, timeout=timeout)


def start_sf(cwd: Path, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """The `sf` command in the background, with an sf home of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "sf", *arguments],
        cwd=cwd,
        env={**os.environ, "SF_HOME": str(home), "HOME": str(home.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Whatever started the tests may have hang-ups ignored, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


def run_sf(
    cwd: Path,
    home: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 60.0,
    wrapper: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """The `sf` command as a process, with an sf home of its own."""
    environment = {**os.environ, "SF_HOME": str(home), "HOME": str(home.parent), **(env or {})}
    return subprocess.run(
        [*wrapper, sys.executable, "-m", "sf", *arguments],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
