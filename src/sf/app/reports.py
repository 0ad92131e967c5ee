"""What is read: status, why, history, the outcome table. Straight from the database, nothing heavy."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from sf.app.standings import RUN, Standings, UnitLine
from sf.app.stores import place_of
from sf.domain.clock import SystemClock, rfc3339
from sf.domain.excerpt import one_line
from sf.domain.ids import full_id
from sf.domain.runs import Run
from sf.domain.units import GATE_BLOCKED, Unit, way_out
from sf.errors import SfError
from sf.observe import disk
from sf.observe.disk import DiskUse
from sf.paths import DRIFT_FILE, Project
from sf.scheduler import lock
from sf.store import attention, blockers, leases, ledger, records, relations, runs, sessions, spending, units
from sf.store.connection import open_reader
from sf.store.tx import Row, Tx


class BlockerLine(msgspec.Struct, frozen=True):
    """Something that waits for a person, and how to answer it."""

    id: str
    event: str
    unit_id: str
    detail: str
    way_out: str
    waits_for_person: bool = True


class StatusReport(msgspec.Struct, frozen=True):
    """The project at a glance."""

    project: str
    session: str
    detail: str
    """Why the session stopped, when it did not end by itself."""
    branch: str
    """What open goals are to be merged into; where they differ, all of it."""
    holder: str
    way_on: str
    """What brings on the units that wait for nothing else, when nobody is at work on them."""
    running: list[UnitLine]
    ending: list[UnitLine]
    """What was called off and still ends."""
    waiting: list[UnitLine]
    """Held ones first, all of them; of the others those that could begin, the oldest first."""
    waiting_in_all: int
    blockers: list[BlockerLine]
    reverted: list[UnitLine]
    """The last units that were reverted; what is below one of them is left out."""
    asked: list[str]
    """What commands asked for and nobody has applied yet."""
    drift: list[str]
    done: dict[str, tuple[int, int]]
    runs: int
    tokens: int
    cost_micro_usd: int
    reserved_micro_usd: int
    """The part of the cost that is reserved for requests under way."""
    estimated_micro_usd: int
    """The part of it that was settled at an estimate: cut off, crashed or answered without figures."""
    worked_ms: int
    disk: DiskUse | None = None
    """What was measured last."""
    crowded: str = ""
    """Why nothing new is begun, when the disk is the reason."""


def status(project: Project, *, most: int | None = 200) -> StatusReport:
    """What `sf status` shows: everything that runs or is held, and `most` of what waits otherwise."""
    tx = open_reader(place_of(project))
    now = SystemClock().now()
    told = Standings(project, tx, now)
    session = sessions.current(tx)
    holder = lock.is_held(project.lock)
    totals = runs.totals(tx)
    parts = {row["how"]: int(row["cost_micro_usd"] or 0) for row in spending.endings(tx, 0)}
    use = disk.last(project)
    running = [unit for unit in leases.running(tx) if not unit.terminal]
    ending = leases.canceled_with_claim(tx)
    held = [unit for unit in units.held(tx) if not unit.terminal]
    queued = units.queued(tx, most=most)
    return StatusReport(
        project=project.root.name,
        session=_session(session, told, begun=totals["runs"] > 0),
        detail=_stopped(session, told),
        branch=", ".join(told.branches()),
        holder=f"{holder.purpose} (process {holder.pid})" if holder else "",
        way_on=RUN if any(told.way_out(unit) == RUN for unit in (*running, *ending, *queued)) else "",
        running=[told.line(unit) for unit in running],
        ending=[told.line(unit) for unit in ending],
        waiting=[told.line(unit) for unit in (*held, *queued)],
        waiting_in_all=units.open_count(tx) - len(running),
        blockers=_blockers(tx),
        reverted=_reverted(tx, told),
        asked=_asked(tx, told),
        drift=_drift(project),
        done=units.tally(tx),
        runs=totals["runs"],
        tokens=totals["input_tokens"] + totals["output_tokens"],
        cost_micro_usd=totals["cost_micro_usd"],
        reserved_micro_usd=parts.get(None, 0),
        estimated_micro_usd=sum(parts[how] for how in parts.keys() - {None, "answered", "refused"}),
        worked_ms=totals["milliseconds"],
        disk=use,
        crowded=disk.crowded(use),
    )


def _session(session: Row | None, told: Standings, *, begun: bool) -> str:
    """Where the session stands; one whose autopilot is gone was interrupted, whatever its row says yet."""
    if session is None:
        return "none open" if begun else "none yet"
    return "interrupted" if _is_killed(session, told) else str(session["status"])


def _is_killed(session: Row, told: Standings) -> bool:
    """Whether its autopilot is gone and could not write that down."""
    return session["status"] == "running" and not told.at_work


def _stopped(session: Row | None, told: Standings) -> str:
    """What happened to a session that did not end by itself, and what became of its work."""
    if session is None or session["detail"]:
        return session["detail"] if session else ""
    kept = "all that was done is kept, and each unit goes on in its phase"
    if _is_killed(session, told):
        return f"sf was killed or crashed; {kept}"
    return f"stopped by Ctrl-C or a closed terminal; {kept}" if session["status"] == "interrupted" else ""


def _asked(tx: Tx, told: Standings) -> list[str]:
    rows = sessions.open_intents(tx)
    if not rows:
        return []
    from sf.scheduler import intents  # most looks do without

    who = (
        "the autopilot applies it as soon as it can" if told.at_work else f"{RUN}, or any command, applies it"
    )
    return [f"{intents.told(row)}: {who}" for row in rows]


def _blockers(tx: Tx) -> list[BlockerLine]:
    lines = []
    for row in blockers.open_blockers(tx):
        unit = units.find(tx, row["unit_id"] or "")
        way = _way_out(tx, row, unit)
        lines.append(
            BlockerLine(
                id=row["id"],
                event=row["event"],
                unit_id=row["unit_id"] or "",
                detail=one_line(row["detail"] or "", 300),
                way_out=way,
                waits_for_person=row["event"] != GATE_BLOCKED,
            )
        )
    return lines


def _way_out(tx: Tx, row: Any, unit: Unit | None) -> str:
    """The way on from a blocker, which need not be the one that holds its unit."""
    if unit is not None and unit.hold_kind is not None and unit.held_by == row["event"]:
        asked = next(iter(attention.of_unit(tx, unit.id)), None)
        return way_out(unit.hold_kind, unit.id, row["id"], asked.data if asked else {})
    if row["event"] == "Paused":
        return "sf resume"
    if row["event"] == GATE_BLOCKED:
        held = unit is not None and unit.hold_kind is not None
        when = "it is mended once the unit goes on" if held else "it is being mended"
        return f"nothing: {when} (sf why {row['unit_id']})"
    return "sf attention" if row["unit_id"] is None else f"sf force-clear {row['id']}"


def _reverted(tx: Tx, told: Standings) -> list[UnitLine]:
    found = units.reverted(tx, most=100)
    together = {unit.id for unit in found}
    return [told.line(unit) for unit in found if unit.parent_id not in together][:5]


def _drift(project: Project) -> list[str]:
    try:
        found: list[str] = msgspec.json.decode((project.runtime / DRIFT_FILE).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return []
    return found


class WhyReport(msgspec.Struct, frozen=True):
    """Everything that explains where a unit stands."""

    unit: UnitLine
    reason: str
    way_out: str
    description: str
    workflow: str
    workspace: str
    branch: str
    counters: dict[str, int]
    limits: dict[str, int]
    """What leads on from a counter, by its name; a counter of an earlier plan has none any more."""
    blocked_by: list[str]
    children: list[UnitLine]
    transitions: list[str]
    runs: list[dict[str, Any]]
    gates: list[dict[str, Any]]
    evidence: list[dict[str, Any]]
    feedback: str


def why(project: Project, unit_id: str) -> WhyReport:
    """What `sf why` shows. Raises UnknownUnit."""
    tx = open_reader(place_of(project))
    now = SystemClock().now()
    told = Standings(project, tx, now)
    unit = units.get(tx, full_id(unit_id))
    waiting = _blockers(tx)
    own = [item for item in waiting if item.unit_id == unit.id]
    held = told.held_before(unit) if not own and not unit.terminal else None
    own = own or [item for item in waiting if held and (item.unit_id, item.event) == (held.id, held.held_by)]
    blocker = next((item for item in own if item.event == unit.held_by), own[0] if own else None)
    feedback, _ = records.unread_feedback(tx, unit.id)
    return WhyReport(
        unit=told.line(unit),
        reason=told.reason(unit),
        way_out=told.way_out(unit) or (blocker.way_out if blocker else ""),
        description=unit.description,
        workflow=unit.workflow,
        workspace=_folder(unit),
        branch=unit.branch or "",
        counters=_counters(tx, unit),
        limits=_limits(project, tx, unit),
        blocked_by=[
            f"{other.id} ({told.word(other)})"
            for other in relations.upstream(tx, unit.id)
            if not (other.terminal or unit.terminal)
        ],
        children=[told.line(child) for child in relations.children(tx, unit.id)],
        transitions=[
            f"{rfc3339(row['transitioned_at'])} {row['from_phase']} → {row['to_phase']}: {row['reason']}"
            for row in units.transitions(tx, unit.id)
        ],
        runs=[_run(run) for run in runs.of_unit(tx, unit.id)],
        gates=[
            _chosen(row, ("gate_name", "passed", "exit_code", "tree", "duration_ms"))
            for row in records.gate_results(tx, unit.id)
        ],
        evidence=[
            _chosen(row, ("kind", "summary", "tree", "commit_id")) for row in records.evidence(tx, unit.id)
        ],
        feedback=feedback,
    )


def _folder(unit: Unit) -> str:
    """Where the unit's work lies; nothing once that is cleared away."""
    return unit.workspace if unit.workspace and Path(unit.workspace).is_dir() else ""


def _counters(tx: Tx, unit: Unit) -> dict[str, int]:
    """Every counter; one of an earlier plan says of which."""
    found = {"runs": unit.attempt, "plan_version": unit.plan_version}
    for row in ledger.everything(tx, unit.id):
        name = f"{row['kind']} {row['key']}".strip()
        earlier = row["plan_version"] not in (ledger.WHOLE_LIFE, unit.plan_version)
        found[f"{name} (plan {row['plan_version']})" if earlier else name] = row["count"]
    return found


def _limits(project: Project, tx: Tx, unit: Unit) -> dict[str, int]:
    """The limit of every counter that still counts; only that of runs while no configuration can be used."""
    from sf.app.intake import rules_of
    from sf.app.trust import load_config

    found = {"runs": unit.run_allowance}
    with contextlib.suppress(SfError):
        config = load_config(project)
        limits = rules_of(config).limits(sessions.pinned(tx, unit.workflow_hash))
        of_gates = config.harness.gates.max_retries
        for row in ledger.everything(tx, unit.id):
            if row["plan_version"] in (ledger.WHOLE_LIFE, unit.plan_version):
                most = limits.of(row["kind"])
                most = max(1, of_gates.get(row["key"], most)) if row["kind"] == "gate" else most
                found[f"{row['kind']} {row['key']}".strip()] = most
    return found


def _run(run: Run) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(run)
    data["duration_ms"] = (run.ended_at - run.started_at) if run.ended_at else None
    return data


def _chosen(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def history(project: Project, **filters: Any) -> list[dict[str, Any]]:
    """Archived units, newest first."""
    tx = open_reader(place_of(project))
    return [dict(row) for row in runs.history(tx, **filters)]


class OutcomeLine(msgspec.Struct, frozen=True):
    """A unit in the table that ends a run of the autopilot."""

    id: str
    title: str
    result: str
    evidence: str
    commit: str
    runs: int
    tokens: int
    cost_micro_usd: int


def outcome(project: Project, *, since: int = 0, most: int = 200) -> list[OutcomeLine]:
    """Open units and those that ended since an instant, with evidence and commit, in plan order."""
    tx = open_reader(place_of(project))
    now = SystemClock().now()
    found = units.recent(tx, since=since, most=most)
    told = Standings(project, tx, now)
    return [_outcome(tx, unit, told) for unit in sorted(found, key=_plan_order)]


def _plan_order(unit: Unit) -> tuple[tuple[str, int], ...]:
    parts = unit.id.split("/")[1:]
    return tuple((part[0], int(part[1:])) for part in parts)


def _outcome(tx: Tx, unit: Unit, told: Standings) -> OutcomeLine:
    spent = runs.totals_of_unit(tx, unit.id)
    found = records.evidence(tx, unit.id)
    commits = [row["commit_id"] for row in found if row["kind"] == "merge" and row["commit_id"]]
    return OutcomeLine(
        id=unit.id,
        title=unit.title,
        result=told.word(unit),
        evidence=_evidence(tx, unit, found),
        commit=commits[-1] if commits else "",
        runs=spent["runs"],
        tokens=spent["input_tokens"] + spent["output_tokens"],
        cost_micro_usd=spent["cost_micro_usd"],
    )


def _evidence(tx: Tx, unit: Unit, found: Any) -> str:
    gates = records.gate_results(tx, unit.id)
    parts = []
    if gates:
        failed = sum(not row["passed"] for row in gates)
        parts.append(f"gates {len(gates) - failed}✓" + (f" {failed}✗" if failed else ""))
    reviews = [row for row in found if row["kind"] == "review"]
    if reviews:
        changes = sum(not row["summary"].startswith("pass") for row in reviews)
        parts.append(f"review {len(reviews) - changes}✓" + (f" {changes}✗" if changes else ""))
    return " ".join(parts)
