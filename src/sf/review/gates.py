"""Gates: scripts that prove or refuse exactly one tree. Their exit code is the only thing believed."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from sf.config.schema import Config
from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.decide import Counter
from sf.domain.excerpt import head_and_tail
from sf.errors import InvalidConfig
from sf.harness.agent import Agent
from sf.harness.desk import Desk
from sf.harness.hooks import HookRunner
from sf.harness.notice import hook_variables
from sf.harness.results import unit_result
from sf.paths import Project
from sf.policy.sandbox import Completed, Sandbox, clean_env
from sf.review import links, places
from sf.store import leases, ledger, records, sessions
from sf.store.records import GateRecord
from sf.store.tx import Tx
from sf.workspaces.refusals import CheckoutBusy
from sf.workspaces.worktree import Worktree

_TIMEOUT = 300.0
_KILL_AFTER = 10.0
_SWITCHES = 3
"""How often a gate is run that another branch is checked out under."""


class Bench(Protocol):
    """What of a desk running a script on a tree needs."""

    @property
    def project(self) -> Project:
        """Whose gates they are."""
        ...

    @property
    def config(self) -> Config:
        """Their time limits."""
        ...

    @property
    def gate_sandbox(self) -> Sandbox:
        """Where they run."""
        ...

    @property
    def hooks(self) -> HookRunner:
        """What is to be done in a fresh checkout first."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What they see of the user's."""
        ...

    def readable(self) -> list[Path]:
        """What they may read below hidden folders."""
        ...


def gate_name(script: str | Path) -> str:
    """A gate's name: its script's file name without the extension."""
    return Path(script).stem


def digest(path: Path) -> str:
    """What tells a gate's script from an earlier one of the same name."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def verify(agent: Agent) -> o.AnyOutcome:
    """Run the unit's gates on its worktree as it is now."""
    tree = await agent.place.worktree.snapshot()
    return await prove(agent, agent.desk.rules.gates(agent.unit), tree, agent.place.worktree, clean=False)


async def prove(
    agent: Agent, scripts: Sequence[str], tree: str, worktree: Worktree, *, clean: bool
) -> o.AnyOutcome:
    """Run gates in order on a tree laid out in a worktree; stop at the first that refuses it.

    Gates run code that an agent wrote: what they change in the folder is undone before the next one.
    """
    branch = agent.desk.workshop.integration_branch(agent.unit)
    await places.located(agent.desk, branch, scripts)
    before = await worktree.strangers() if scripts else []
    for script in scripts:
        record, outcome = await _said(agent, branch, script, tree, worktree, before, clean=clean)
        await _keep(agent, record)
        if outcome is not None:
            return outcome
    return o.Done("gates passed: " + ", ".join(gate_name(script) for script in scripts))


async def _said(
    agent: Agent,
    branch: str,
    script: str,
    tree: str,
    worktree: Worktree,
    before: Sequence[str],
    *,
    clean: bool,
) -> tuple[GateRecord, o.GateFailed | None]:
    """What a branch's gate says of a tree; it is run again when another branch came under it."""
    for _ in range(_SWITCHES):
        # Looked for each time: a person may have switched branches while the one before ran.
        seen = await places.seen(agent.desk, branch, script)
        try:
            said = await _run(agent, seen.gate, tree, worktree.folder, clean=clean)
        except OSError:
            # Gone before it began, which is nobody's failure if it went with its branch.
            if await places.is_one_branchs(agent.desk, seen):
                places.require_runnable({script: seen.gate})
                raise
        else:
            await _undo(agent, gate_name(script), tree, worktree, before)
            if await places.is_one_branchs(agent.desk, seen):
                return said
        agent.desk.log.warning(
            "another branch came while a gate ran; it is run again", gate=gate_name(script)
        )
    raise CheckoutBusy(f"another branch was checked out {_SWITCHES} times while {script} ran")


async def _undo(agent: Agent, gate: str, tree: str, worktree: Worktree, before: Sequence[str]) -> None:
    if await undo(tree, worktree, before):
        agent.desk.log.warning(
            "gate changed the tree, undone", unit_id=agent.unit.id, unit_type=agent.unit.type, gate=gate
        )


async def undo(tree: str, worktree: Worktree, before: Sequence[str]) -> bool:
    """Take back what a gate changed in the folder; whether it changed the tree."""
    await worktree.discard([name for name in await worktree.strangers() if name not in before])
    changed = await worktree.snapshot() != tree
    if changed:
        await worktree.checkout_tree(tree)
    return changed


async def carry_out(
    bench: Bench, path: Path, folder: Path, variables: Mapping[str, str], told: object, *, retry: int = 0
) -> Completed:
    """Run a gate in a folder, in the gates' sandbox, and tell it on stdin of what it is run for."""
    name = gate_name(path)
    done = await bench.gate_sandbox.run(
        [str(path)],
        workspace=folder,
        readable=[*links.readable(bench.project, path), *bench.readable()],
        env=clean_env(bench.environment, {**variables, "SF_GATE_NAME": name, "SF_GATE_RETRY": str(retry)}),
        stdin=msgspec.json.encode(told) + b"\n",
        timeout=float(bench.config.harness.gates.timeouts.get(name, _TIMEOUT)) or math.inf,
        grace=bench.config.harness.tool_abort_grace,
        kill_after=_KILL_AFTER,
    )
    _require_reached(bench, path, None if done.timed_out else done.exit_code)
    return done


async def set_up(bench: Bench, folder: Path, variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """The after_create hook in a fresh checkout, in the gates' sandbox; what failed, with its output."""
    failed = []
    for command in bench.hooks.commands("after_create"):
        done = await bench.gate_sandbox.run(
            bench.hooks.argv(command),
            workspace=folder,
            readable=[bench.project.dot / "hooks", *bench.readable()],
            env=clean_env(bench.environment, variables),
            timeout=bench.hooks.timeout("after_create"),
        )
        if done.exit_code != 0:
            failed.append((f"after_create {command!r} exited with {done.exit_code}", done.output))
    return failed


async def _run(
    agent: Agent, path: Path, tree: str, folder: Path, *, clean: bool
) -> tuple[GateRecord, o.GateFailed | None]:
    desk, unit = agent.desk, agent.unit
    name = gate_name(path)
    retry = ledger.count(desk.database.read, unit, Counter("gate", name))
    limit = _retries(desk, agent, name)
    script_digest = digest(path)
    started_at = time.time_ns() // 1_000_000
    desk.announce(events.GATE_STARTED, unit.id, gate=name)
    variables = hook_variables(desk, unit, agent.lease.run_id, str(folder))
    told = unit_result(desk, unit, verdict="pending")
    done = await carry_out(desk, path, folder, variables, told, retry=retry)
    code = None if done.timed_out else done.exit_code
    passed = code in (0, 3)
    record = GateRecord(
        gate=name,
        passed=passed,
        exit_code=code,
        retry=retry,
        max_retries=limit,
        tree=tree,
        clean=clean,
        script=script_digest,
        output=done.output,
        duration_ms=done.duration_ms,
    )
    _trace(agent, record, started_at)
    if passed:
        return record, None
    text = "timed out" if done.timed_out else head_and_tail(done.output, 8192, "... [truncated] ...")
    return record, o.GateFailed(
        gate=name,
        output=f"exit code {code}\n{text}",
        limit=limit,
        final=code == 2,
        code="gate_timeout" if done.timed_out else "gate_failed",
    )


def _require_reached(bench: Bench, gate: Path, code: int | None) -> None:
    """Raise InvalidConfig for a gate that is a link to what the sandbox hides: no fault of the tree's."""
    out = links.leads_out(bench.project, gate)
    if code in (126, 127) and out and bench.gate_sandbox.profile != "off":
        told = f"gate {gate} could not be run: it is a link that leads out of the repository, to {out}"
        raise InvalidConfig(told, hint="name that script itself as the gate, or list it in sandbox.readable")


def _retries(desk: Desk, agent: Agent, name: str) -> int:
    own = desk.config.harness.gates.max_retries.get(name)
    if own is not None:
        return own
    return sessions.pinned(desk.database.read, agent.unit.workflow_hash).max_retries


async def _keep(agent: Agent, record: GateRecord) -> None:
    desk, unit, lease = agent.desk, agent.unit, agent.lease
    now = desk.clock.now()

    def write(tx: Tx) -> None:
        leases.require_lease(tx, lease)
        records.gate_result(tx, unit.id, lease.run_id, record, now)
        if record.passed:
            skipped = " (skipped itself)" if record.exit_code == 3 else ""
            summary = f"{record.gate}: exit {record.exit_code}{skipped}"
            records.found(tx, lease, "gate", summary, now, tree=record.tree)
        tx.announce(
            events.Event(
                events.GATE_RESULT,
                now,
                unit.id,
                {
                    "gate": record.gate,
                    "passed": record.passed,
                    "duration_ms": record.duration_ms,
                    "clean": record.clean,
                },
            )
        )

    await desk.database.write(write)


def _trace(agent: Agent, record: GateRecord, started_at: int) -> None:
    agent.desk.tracer.span(
        "gate",
        trace_id=agent.lease.run_id,
        started_at=started_at,
        attrs={
            "unit_id": agent.unit.id,
            "gate": record.gate,
            "exit_code": record.exit_code,
            "tree": record.tree,
            "attempt": record.retry,
            "passed": record.passed,
        },
        error="" if record.passed else "gate_failed",
    )
    agent.desk.log.info(
        f"gate {'completed' if record.passed else 'failed'}",
        unit_id=agent.unit.id,
        unit_type=agent.unit.type,
        gate=record.gate,
        attempt=record.retry,
        passed=record.passed,
        exit_code=record.exit_code,
    )
