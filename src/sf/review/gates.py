"""Gates: scripts that prove or refuse exactly one tree. Their exit code is the only thing believed."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.decide import Counter
from sf.domain.excerpt import head_and_tail
from sf.errors import InvalidConfig
from sf.harness.agent import Agent
from sf.harness.attempt import hook_variables
from sf.harness.desk import Desk
from sf.harness.hooks import script_path, unrunnable
from sf.harness.results import unit_result
from sf.harness.workshop import branch_gone
from sf.policy.sandbox import clean_env
from sf.review import links
from sf.store import leases, ledger, records, sessions
from sf.store.records import GateRecord
from sf.store.tx import Tx
from sf.workspaces.extract import as_run, entries, extract, lie_in
from sf.workspaces.refusals import CheckoutBusy
from sf.workspaces.worktree import Worktree

_TIMEOUT = 300.0
_KILL_AFTER = 10.0
_LOOKS, _LOOK_AGAIN = 600, 0.1
"""How often, and how many seconds apart, a git that is at work in the checkout is waited for: it may be
bringing another branch's gates."""
_SWITCHES = 3


def gate_name(script: str | Path) -> str:
    """A gate's name: its script's file name without the extension."""
    return Path(script).stem


def digest(path: Path) -> str:
    """What tells a gate's script from an earlier one of the same name."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_checkout(root: Path, scripts: Sequence[str]) -> dict[str, Path]:
    """Where gates lie in the user's checkout."""
    return {script: script_path(root, script) for script in scripts}


async def located(desk: Desk, branch: str, scripts: Sequence[str]) -> dict[str, Path]:
    """Where gates are run from for work on a branch: as it has them, when the checkout has another one out.

    The gates of an older branch would let pass what they do not know. While a git is at work there it is
    waited for. Raises InvalidConfig for gates that could not be run, and BranchGone.
    """
    user = desk.workshop.user
    if scripts:
        await _quiet(desk)
    places = in_checkout(desk.project.root, scripts)
    if scripts and (user.branch_out() != branch or user.is_at_work()):
        places |= await _committed(desk, branch, scripts)
    require_runnable(places)
    return places


async def _quiet(desk: Desk) -> None:
    """Wait while a git is at work in the checkout, but not for ever."""
    for _ in range(_LOOKS):
        if not desk.workshop.user.is_at_work():
            break
        await asyncio.sleep(_LOOK_AGAIN)


async def _committed(desk: Desk, branch: str, scripts: Sequence[str]) -> dict[str, Path]:
    """Those of the gates that a branch has otherwise than the checkout, laid out with their neighbours."""
    owned, root = desk.workshop.owned, desk.project.root
    inside = [script for script in scripts if _is_inside(script)]
    if not inside:
        return {}
    commit = await desk.workshop.user.branch_commit(branch)
    if commit is None:
        raise branch_gone(branch)
    await owned.fetch(commit)
    candidates = [str(Path(*place, script)) for script in inside for place in ((".sf",), ())]
    known = {entry.path for entry in await entries(owned, commit, candidates)}
    chosen = {script: path for script in inside if (path := _chosen(root, script, known))}
    places, found = {}, []
    for script, path in chosen.items():
        gate = await links.followed(owned, commit, path)
        folder = await _laid_out(desk, commit, gate)
        if folder is None:
            continue
        places[script] = folder / path
        if gate.last is None:
            found.append(f"gate {script}: on {branch} it {gate.trouble}")
        elif not os.access(folder / path, os.X_OK):
            cure = f"git update-index --chmod=+x {shlex.quote(gate.last.path)}, and commit"
            found.append(f"gate {script}: has no run bit on {branch} ({cure} it there)")
    _refuse(found)
    return places


async def _laid_out(desk: Desk, commit: str, gate: links.Followed) -> Path | None:
    """Lay out a gate of a commit with its neighbours; None when the checkout has exactly these."""
    owned, user, root = desk.workshop.owned, desk.workshop.user, desk.project.root
    near = tuple(dict.fromkeys(_neighbourhood(path) for path in gate.paths))
    listed = {entry.path: entry for entry in await entries(owned, commit, near)}.values()
    main = gate.last.path if gate.last else ""
    beside = as_run(root, list(listed), main, has_run_bits=user.has_run_bits)
    tracked = await user.tracked_files()
    here = [name for name in tracked if name in near or name.startswith(tuple(f"{each}/" for each in near))]
    if lie_in(root, beside, here):
        return None
    named = hashlib.sha256(msgspec.json.encode(beside)).hexdigest()[:32]
    folder = desk.project.committed_gates / named
    await extract(owned, beside, folder)
    return folder


def _chosen(root: Path, script: str, known: set[str]) -> str:
    """Which of a branch's files a gate is; empty for one that is not committed there.

    In the order of `script_path`, for the same reason: one of the operator's that no branch has comes before
    what an agent can write.
    """
    own, plain = str(Path(".sf", script)), str(Path(script))
    if own in known:
        return own
    return plain if plain in known and not (root / own).exists() else ""


def _neighbourhood(path: str) -> str:
    """What is laid out with a gate: its folder, which at the top would be everything."""
    return str(Path(path).parent) if "/" in path else path


def _is_inside(script: str) -> bool:
    return not Path(script).is_absolute() and ".." not in Path(script).parts


def problems(places: Mapping[str, Path]) -> list[str]:
    """What is wrong with configured gates: missing, without the run bit, or nothing that could run them."""
    found = []
    for script, path in places.items():
        if not path.is_file():
            found.append(f"gate {script}: there is no such file ({path})")
        elif not os.access(path, os.X_OK):
            found.append(f"gate {script}: has no run bit (chmod +x {path})")
        elif trouble := unrunnable(path):
            found.append(f"gate {script}: {trouble}")
    return found


def require_runnable(places: Mapping[str, Path]) -> None:
    """Raise InvalidConfig when a gate could not be run."""
    _refuse(problems(places))


def _refuse(found: Sequence[str]) -> None:
    if found:
        raise InvalidConfig(f"{len(found)} gate(s) cannot be run", problems=tuple(found))


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
    await located(agent.desk, branch, scripts)
    before = await worktree.strangers() if scripts else []
    for script in scripts:
        for _ in range(_SWITCHES):
            # Looked for again: a person may have switched branches while the one before ran.
            place = (await located(agent.desk, branch, [script]))[script]
            ran = await _files(agent.desk, place)
            record, outcome = await _run(agent, place, tree, worktree.folder, clean=clean)
            await _undo(agent, record.gate, tree, worktree, before)
            if ran == {path: _mark(path) for path in ran}:
                break
            agent.desk.log.warning("the checkout changed while a gate ran; it is run again", gate=record.gate)
        else:
            raise CheckoutBusy(f"the checkout changed {_SWITCHES} times while {script} ran")
        await _keep(agent, record)
        if outcome is not None:
            return outcome
    return o.Done("gates passed: " + ", ".join(gate_name(script) for script in scripts))


async def _files(desk: Desk, gate: Path) -> dict[Path, tuple[int, int, int]]:
    """What a gate in the checkout runs, as far as git may change it: half of it could be another branch's."""
    root = desk.project.root
    if not gate.is_relative_to(root):
        return {}
    tracked = await desk.workshop.user.tracked_files()
    near = [
        _neighbourhood(str(path.relative_to(root))) for path in links.steps(gate) if path.is_relative_to(root)
    ]
    folders = tuple(f"{each}/" for each in near)
    return {root / name: _mark(root / name) for name in tracked if name in near or name.startswith(folders)}


def _mark(path: Path) -> tuple[int, int, int]:
    """What is another once a file was written anew; nothing for one that is not there."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


async def _undo(agent: Agent, gate: str, tree: str, worktree: Worktree, before: Sequence[str]) -> None:
    """Take back what a gate changed in the folder."""
    await worktree.discard([name for name in await worktree.strangers() if name not in before])
    if await worktree.snapshot() != tree:
        agent.desk.log.warning(
            "gate changed the tree, undone", unit_id=agent.unit.id, unit_type=agent.unit.type, gate=gate
        )
        await worktree.checkout_tree(tree)


async def _run(
    agent: Agent, path: Path, tree: str, folder: Path, *, clean: bool
) -> tuple[GateRecord, o.GateFailed | None]:
    desk, unit = agent.desk, agent.unit
    name = gate_name(path)
    retry = ledger.count(desk.database.read, unit, Counter("gate", name))
    limit = _retries(desk, agent, name)
    script_digest = digest(path)
    started_at = time.time_ns() // 1_000_000
    done = await desk.gate_sandbox.run(
        [str(path)],
        workspace=folder,
        readable=[*links.readable(desk.project, path), *desk.readable()],
        env=clean_env(
            desk.environment,
            {
                **hook_variables(desk, unit, agent.lease.run_id, str(folder)),
                "SF_GATE_NAME": name,
                "SF_GATE_RETRY": str(retry),
            },
        ),
        stdin=msgspec.json.encode(unit_result(desk, unit, verdict="pending")) + b"\n",
        timeout=float(desk.config.harness.gates.timeouts.get(name, _TIMEOUT)) or math.inf,
        grace=desk.config.harness.tool_abort_grace,
        kill_after=_KILL_AFTER,
    )
    code = None if done.timed_out else done.exit_code
    _require_reached(desk, path, code)
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


def _require_reached(desk: Desk, gate: Path, code: int | None) -> None:
    """Raise InvalidConfig for a gate that is a link to what the sandbox hides: no fault of the tree's."""
    out = links.leads_out(desk.project, gate)
    if code in (126, 127) and out and desk.gate_sandbox.profile != "off":
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
            records.add_evidence(tx, unit.id, lease.run_id, "gate", summary, now, tree=record.tree)
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
