"""Databases that older versions left in mid-flight: opened, upgraded, found healthy, and gone on with."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from sf.app import doctor, reports
from sf.app.initialise import initialise
from sf.domain.units import HoldKind, Status
from sf.errors import StoreTooOld
from sf.store import attention, migrate, runs, units
from sf.store.connection import engine_of, writing
from tests.support.stage import PASSING, Stage, say, scene, write
from tests.support.stores import columns

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("schema-*.sql"))
HELD, RUNNING = "task/m1/s2/t1", "task/m1/s1/t2"
WORK = ("TA2", "TB1", "TC1", "interrupted", "waiting", "refused")


def _version(file: Path) -> int:
    return int(re.sub(r"\D", "", file.stem))


def _install(stage: Stage, file: Path) -> None:
    """Put an old database into a project, with a script for what is still to be done."""
    for name in stage.project.dot.glob("sf.db*"):
        name.unlink()
    old = sqlite3.connect(stage.project.dot / "sf.db")
    old.executescript(file.read_text(encoding="utf-8"))
    old.close()
    written = [scene("execute", write(f"{name}.txt"), say(), unit=name) for name in WORK]
    tested = [scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in WORK]
    stage.script(*written, *tested, *PASSING)


def test_there_is_a_golden_database_of_every_schema_version() -> None:
    assert [_version(file) for file in FILES] == [migration.version for migration in migrate.known()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_upgraded_database_has_the_schema_of_a_new_one(tmp_path: Path, file: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    made = sqlite3.connect(old)
    made.executescript(file.read_text(encoding="utf-8"))
    made.close()
    assert _schema(old) == _schema(new)


def _schema(path: Path) -> set[tuple[str, str, str]]:
    """Every column and every index, once today's sf has opened the file for writing."""
    connection = writing(engine_of(path))
    found = {(table, name, kind) for (table, name), kind in columns(connection, path).items()}
    indices = connection.execute("SELECT tbl_name, name FROM sqlite_master WHERE type = 'index'").fetchall()
    connection.close()
    return found | {(row["tbl_name"], row["name"], "index") for row in indices}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_old_database_is_upgraded_healthy_and_resumed_to_its_end(stage: Stage, file: Path) -> None:
    _install(stage, file)
    if _version(file) < migrate.newest():
        with pytest.raises(StoreTooOld, match="schema version"):
            reports.status(stage.project)
    initialise(stage.root)
    assert [check for check in doctor.examine(stage.project) if check.verdict == "fail"] == []
    before = {unit.id: unit for unit in units.listed(stage.read, archived=True)}
    assert (before[HELD].hold_kind, before[RUNNING].status) == (HoldKind.BLOCKED, Status.RUNNING)
    (asked,) = attention.of_unit(stage.read, HELD)
    assert asked.question == "which colour?"
    assert stage.auto().ending == "waiting"
    assert [unit.id for unit in units.held(stage.read)] == [HELD]
    stage.submit("reply", question_id=HELD, answer="red")
    again = stage.auto()
    assert again.ending == "done", [(u.id, u.hold_kind, u.hold_detail) for u in units.held(stage.read)]
    _check_end(stage, before.keys() - {"task/a4"})


def _check_end(stage: Stage, expected: set[str]) -> None:
    ended = {unit.id: unit for unit in units.listed(stage.read, archived=True)}
    assert {name for name, unit in ended.items() if unit.succeeded} == expected
    assert ended["task/a4"].verdict == "abandoned"
    first = [run for run in runs.of_unit(stage.read, RUNNING) if run.outcome == "interrupted"]
    assert [run.error_code for run in first] == ["resumed_after_crash"]
    assert runs.live(stage.read) == []
    assert {name for name in WORK if (stage.root / f"{name}.txt").exists()} == set(WORK)
