"""What must hold after any crash and a clean run: read from outside, by plain git and plain SQL."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.chaos.ground import Ground
from tests.chaos.plays import MERGED, UNIT, Outcome

_MISCOUNTED = """SELECT COUNT(*) FROM spend_accounts a WHERE scope = 'unit' AND spent_micro_usd <>
  (SELECT COALESCE(SUM(cost_micro_usd), 0) FROM spend WHERE unit_id = a.key)"""


def broken(ground: Ground, outcome: Outcome = MERGED, *, torn: int = 0, doctor: bool = True) -> list[str]:
    """Every invariant that does not hold, in words; empty when nothing was lost or done twice.

    `torn` lines of the trace may be incomplete: a write that was cut short. `doctor` asks `sf doctor` too.
    """
    return [
        *_branch(ground, outcome),
        *_checkout(ground, outcome),
        *_rows(ground, outcome),
        *_merges(ground),
        *_hooks(ground, outcome),
        *_objects(ground),
        *_leftovers(ground, outcome),
        *_processes(ground.place),
        *_traces(ground, torn),
        *(_doctor(ground) if doctor else ()),
    ]


def git(folder: Path, *arguments: str) -> str:
    """Plain git, with the answer or the complaint."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    return done.stdout.strip() if done.returncode == 0 else f"git failed: {done.stderr.strip()}"


def _branch(ground: Ground, outcome: Outcome) -> Iterator[str]:
    subjects = git(ground.root, "log", "--first-parent", "--format=%s", "main").splitlines()
    if subjects != list(outcome.mainline):
        yield f"the branch's commits are {subjects}"
    everything = git(ground.root, "log", "--format=%s", "main").splitlines()
    if sorted(everything) != sorted([*outcome.mainline, *outcome.commits]):
        yield f"all commits of the branch are {everything}"
    files = git(ground.root, "ls-tree", "-r", "--name-only", "main").splitlines()
    if sorted(files) != sorted(outcome.files):
        yield f"the branch's files are {files}"
    for name, content in outcome.files.items():
        if git(ground.root, "show", f"main:{name}") != content.strip():
            yield f"{name} is not what was written"


def _checkout(ground: Ground, outcome: Outcome) -> Iterator[str]:
    status = git(ground.root, "status", "--porcelain")
    if [line for line in status.splitlines() if line != "?? .sf/"]:
        yield f"the checkout is not clean: {status!r}"
    if git(ground.root, "symbolic-ref", "HEAD") != "refs/heads/main":
        yield "HEAD left main"
    for name, content in outcome.files.items():
        path = ground.root / name
        if not path.is_file() or path.read_text() != content:
            yield f"{name} in the checkout is not what was written"


def _rows(ground: Ground, outcome: Outcome) -> Iterator[str]:
    with closing(sqlite3.connect(ground.project.database)) as connection:
        yield from _examined(connection, outcome)


def _merges(ground: Ground) -> Iterator[str]:
    """What is on record as merged is in the branch, and is the unit's own."""
    with closing(sqlite3.connect(ground.project.database)) as connection:
        rows = connection.execute("SELECT unit_id, commit_id FROM evidence WHERE kind = 'merge'").fetchall()
    known = git(ground.root, "log", "--format=%H %(trailers:key=Sf-Unit,valueonly,separator=%x20)", "main")
    for unit, commit in rows:
        if f"{commit} {unit}" not in known.splitlines():
            yield f"{commit} is on record as what {unit} merged"


def _hooks(ground: Ground, outcome: Outcome) -> Iterator[str]:
    """The PostUnit hook ran for every unit: a crash repeats it rather than skipping it."""
    told = ground.place / "told.txt"
    if outcome.told and (not told.is_file() or set(told.read_text().split()) != set(outcome.units)):
        yield f"the hook was told of {told.read_text().split() if told.is_file() else 'nothing'}"


def _examined(connection: sqlite3.Connection, outcome: Outcome) -> Iterator[str]:
    def one(query: str) -> object:
        return connection.execute(query).fetchone()[0]

    if one("PRAGMA integrity_check") != "ok":
        yield "the database is damaged"
    columns = "id, phase, verdict, wound_up_at IS NOT NULL, reverted_at IS NOT NULL"
    units = connection.execute(f"SELECT {columns} FROM units ORDER BY id").fetchall()
    if units != [(unit, "complete", "success", 1, int(outcome.reverted)) for unit in outcome.units]:
        yield f"the units are {units}"
    for query, most in (
        ("SELECT COUNT(*) FROM phase_transitions WHERE to_phase = 'complete'", len(outcome.units)),
        ("SELECT COUNT(*) FROM evidence WHERE kind = 'merge'", outcome.merging),
        ("SELECT COUNT(DISTINCT unit_id) FROM evidence WHERE kind = 'merge'", outcome.merging),
        ("SELECT COUNT(*) FROM runs WHERE ended_at IS NULL", 0),
        ("SELECT COUNT(*) FROM units WHERE claim_holder IS NOT NULL", 0),
        ("SELECT COUNT(*) FROM intents WHERE applied_at IS NULL", 0),
        ("SELECT COUNT(*) FROM attention WHERE closed_at IS NULL", 0),
        ("SELECT COUNT(*) FROM spend WHERE settled_at IS NULL", 0),
        ("SELECT COUNT(*) FROM spend_accounts WHERE reserved_micro_usd <> 0", 0),
        (_MISCOUNTED, 0),
    ):
        if one(query) != most:
            yield f"{query} is {one(query)}, not {most}"
    for unit in outcome.units:
        runs = connection.execute("SELECT attempt FROM runs WHERE unit_id_snap = ? ORDER BY id", (unit,))
        attempts = [row[0] for row in runs]
        if attempts != list(range(1, len(attempts) + 1)):
            yield f"the numbers of {unit}'s runs are {attempts}"


def _objects(ground: Ground) -> Iterator[str]:
    """No object is broken, and the content of every commit that sf made is under some ref."""
    owned = ground.project.repository
    for folder in (ground.root, owned):
        done = subprocess.run(
            ["git", "fsck", "--strict", "--no-dangling"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        # fsck notices that HEAD of sf's own repository names a branch that never exists.
        complaints = [
            line for line in done.stderr.splitlines() if "unborn" not in line and "HEAD" not in line
        ]
        if done.returncode != 0 or complaints:
            yield f"git fsck in {folder.name}: {done.returncode} {complaints} {done.stdout}"
    listed = git(owned, "log", "--all", "--format=%T").splitlines()
    trees = {*listed, *git(owned, "for-each-ref", "--format=%(tree)").splitlines()}
    trees.update(git(ground.root, "log", "--all", "--format=%T").splitlines())
    for line in git(owned, "fsck", "--unreachable", "--no-reflogs").splitlines():
        if line.startswith("unreachable commit "):
            commit = line.split()[-1]
            tree, _, subject = git(owned, "show", "-s", "--format=%T %s", commit).partition(" ")
            # A merge that was only tried is made of two commits that are kept.
            if tree not in trees and not subject.startswith("sf: proposed merge of "):
                yield f"commit {commit} of sf's is under no ref, nor is its tree"


def _leftovers(ground: Ground, outcome: Outcome) -> Iterator[str]:
    project = ground.project
    folders = list(project.worktrees.iterdir()) if project.worktrees.is_dir() else []
    active = list((project.dot / "active").iterdir()) if (project.dot / "active").is_dir() else []
    restored = [folder.name for folder in active] == [UNIT.replace("/", "_")]
    locks = [path for path in (ground.root / ".git").rglob("*.lock")]
    temporary = [path for path in (ground.root / ".git").rglob(".sf-*")]
    keeps = [path for path in (ground.root / ".git").rglob("*.keep")]
    landing = [path for path in ground.home.rglob("landing.json")]
    owned = [*project.repository.rglob("*.lock"), *(project.repository / "worktrees").iterdir()]
    owned += (project.repository / "refs" / "heads").rglob("sf/*")
    half = [path for path in project.repository.parent.glob(".*")]
    if outcome.reverted and not restored:
        yield f"the folder of the unit is not back: {active}"
    for what in (folders, [] if outcome.reverted else active, locks, temporary, keeps, landing, owned, half):
        if what:
            yield "left over: " + ", ".join(str(path.relative_to(ground.place)) for path in what)
    yield from _temporary(ground)
    crash = ground.home / "log" / "crash.log"
    if crash.exists():
        yield f"crash.log: {crash.read_text()[-600:]}"


def _temporary(ground: Ground) -> Iterator[str]:
    """No folder of a run is left where temporary files go."""
    with closing(sqlite3.connect(ground.project.database)) as connection:
        known = {str(row[0]) for row in connection.execute("SELECT id FROM runs")}
    for path in Path(tempfile.gettempdir()).glob("sf-run-*"):
        if path.name.split("-")[2] in known:
            yield f"left over: {path}"


def _processes(place: Path) -> Iterator[str]:
    mine = os.getpid()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == mine:
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            cwd = str((entry / "cwd").readlink())
        except OSError:
            continue
        if str(place) in command or cwd.startswith(str(place)):
            yield f"process {entry.name} still runs: {command[:200]} in {cwd}"


def _traces(ground: Ground, torn: int) -> Iterator[str]:
    bad = []
    for path in ground.project.trace.glob("*.jsonl"):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                json.loads(line)
            except ValueError:
                bad.append(f"{path.name} line {number} is no JSON: {line[:80]!r}")
    if len(bad) > torn:
        yield from bad


def _doctor(ground: Ground) -> Iterator[str]:
    """Everything passes; how much room the disk has is not sf's doing."""
    said = ground.sf("doctor", "--json")
    try:
        checks = json.loads(said.stdout)
    except ValueError:
        yield f"sf doctor: {said.code} {said.stdout[-600:]} {said.stderr[-600:]}"
        return
    for check in checks:
        if check["verdict"] == "fail" or (check["verdict"] == "warn" and check["name"] != "disk"):
            yield f"sf doctor: {check}"
