"""A project whose rows are on a PostgreSQL server: from `sf init` to merged commits, there and back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sf
from sf.app.doctor import examine
from sf.app.moving import move
from sf.app.stores import from_url, place_of
from sf.domain.clock import SystemClock
from sf.domain.ids import ulid
from sf.domain.knowledge import Lesson
from sf.errors import BadUsage, StoreNotEmpty, StoreUnusable
from sf.scheduler.lock import ProjectLock
from sf.scheduler.notices import seat
from sf.store import knowledge, units
from sf.store.connection import transact
from sf.store.place import Place, Url
from sf.store.tx import Tx
from tests.support.stage import PASSING, Stage, plan_scene, run_sf, say, scene, start_sf, task, write
from tests.support.stores import Server, execute

PASSWORD = "hunter2"
SCENES = (
    plan_scene({"title": "S", "tasks": [task("one")]}),
    scene("execute", write("one.txt"), say()),
    *PASSING,
)


@pytest.fixture
def url(server: Server) -> str:
    """A url with a password, which the server does not ask for."""
    return server.url.value.replace("postgres:@", f"postgres:{PASSWORD}@")


def use(stage: Stage, url: str) -> None:
    """Name the store as a user would who keeps the password out of the file."""
    stage.home.mkdir(parents=True, exist_ok=True)
    secret = stage.home / "store-url"
    secret.write_text(url)
    (stage.home / "config.toml").write_text(f"[store]\nurl = \"$(cat '{secret}')\"\n")


def test_a_goal_becomes_merged_commits_with_every_row_on_the_server(stage: Stage, url: str) -> None:
    use(stage, url)
    stage.project.database.unlink()
    assert stage.sf("status").returncode == 1, "there is no store yet"
    assert stage.sf("init").returncode == 0
    stage.script(*SCENES)
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "one.txt").exists()
    assert not stage.project.database.exists(), "nothing fell back to a file"
    done = [stage.sf(*command) for command in (["status"], ["doctor"], ["config", "show"], ["history"])]
    assert "Milestones: " in done[0].stdout and "1 / 1" in done[0].stdout
    assert "on postgresql://postgres@/postgres schema sf_project_" in done[1].stdout
    assert all(PASSWORD not in answer.stdout + answer.stderr for answer in done)
    log = (stage.project.dot / "log" / "sf.log").read_text()
    assert PASSWORD not in log


def test_doctor_tells_that_a_server_takes_no_writes(stage: Stage, url: str) -> None:
    use(stage, url)
    transact(place_of(stage.project), lambda tx: None)
    found = {check.name: check for check in examine(stage.project)}
    assert found["database"].verdict == "pass"
    use(stage, f"{url}&options=-cdefault_transaction_read_only%3Don")
    found = {check.name: check for check in examine(stage.project)}
    assert found["database"].verdict == "fail" and "takes no writes" in found["database"].detail


def test_two_folders_share_a_store_and_neither_takes_the_others_work(
    tmp_path: Path, server: Server, url: str
) -> None:
    """Two clones, each with its autopilot at once: every milestone is done whole, in one of them, once."""
    schema = f"shared_{ulid().lower()}"
    shared = url + ("&" if "?" in url else "?") + f"options=-csearch_path%3D{schema}"
    server.do(f"CREATE SCHEMA {schema}")
    stages = [Stage(tmp_path / name / "project", tmp_path / name / "home" / ".sf") for name in ("one", "two")]
    stages[1].follow(stages[0])
    for stage in stages:
        use(stage, shared)
        assert stage.sf("init").returncode == 0
        stage.script(*SCENES, latency_ms=30)
    goals = [stages[number % 2].plan(f"goal {number}") for number in range(4)]
    assert goals == [f"milestone/m{number}" for number in (1, 2, 3, 4)]
    autopilots = [start_sf(stage.root, stage.home, "auto") for stage in stages]
    said = [process.communicate(timeout=120)[0] for process in autopilots]
    assert [process.returncode for process in autopilots] == [0, 0], said
    places = {goal: stages[0].unit(goal).station for goal in goals}
    assert set(places.values()) <= {stage.project.key for stage in stages}
    for goal in goals:
        below = goal.removeprefix("milestone/")
        for unit_id in (goal, f"slice/{below}/s1", f"task/{below}/s1/t1"):
            unit = stages[0].unit(unit_id)
            assert (unit.verdict, unit.station) == ("success", places[goal]), unit_id
            closed = [
                row for row in units.transitions(stages[0].read, unit_id) if row["to_phase"] == "complete"
            ]
            assert len(closed) == 1, unit_id
    for stage in stages:
        merged = stage.git("log", "--merges", "--format=%s").splitlines()
        own = [goal for goal in goals if places[goal] == stage.project.key]
        assert len(merged) == len(own), "what a folder took it also merged, and nothing else"


def test_a_copied_folder_leaves_the_rows_of_its_original_alone(stage: Stage, url: str) -> None:
    use(stage, url)
    assert stage.sf("init").returncode == 0
    stage.plan("of the original")
    copy = stage.root.with_name("copy")
    shutil.copytree(stage.root, copy)
    assert run_sf(copy, stage.home, "plan", "of the copy").stdout.startswith("milestone/m1: of the copy")
    assert run_sf(copy, stage.home, "abandon", "milestone/m1", "an experiment").returncode == 0
    unit = stage.unit("milestone/m1")
    assert (unit.title, unit.terminal) == ("of the original", False)


def test_nobody_starts_while_the_store_is_being_moved(stage: Stage, url: str) -> None:
    use(stage, url)
    assert stage.sf("init").returncode == 0
    stage.script(*SCENES)
    stage.plan()
    place = place_of(stage.project)
    with seat(place):
        done = stage.sf("auto")
    assert (done.returncode, PASSWORD in done.stderr) == (5, False), done.stderr
    assert "another sf works from" in done.stderr


def test_there_and_back_again(stage: Stage, url: str) -> None:
    stage.script(*SCENES)
    stage.plan()
    assert stage.auto().ending == "done"
    before = stage.sf("why", "milestone/m1", "--json").stdout
    moved = stage.sf("store", "migrate", url)
    assert moved.returncode == 0, moved.stderr
    assert "copied" in moved.stdout and "[store]\nurl = '$(" in moved.stdout
    assert PASSWORD not in moved.stdout + moved.stderr
    again = stage.sf("store", "migrate", url)
    assert (again.returncode, "store_not_empty" in again.stderr) == (2, True)

    stage.project.database.rename(stage.root / "kept.db")
    use(stage, url)
    assert stage.sf("why", "milestone/m1", "--json").stdout == before
    back = stage.sf("store", "migrate", "sqlite", "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["rows"]["units"] == 3
    (stage.home / "config.toml").unlink()
    assert stage.sf("why", "milestone/m1", "--json").stdout == before
    stage.plan("more", workflow="feature")


def test_lessons_that_wait_are_moved_as_this_folders(stage: Stage, url: str) -> None:
    stage.plan()
    now = SystemClock().now()

    def waiting(station: str = "") -> list[str]:
        return [found.lesson.content for found in knowledge.due(stage.read, now, station=station, longest=0)]

    transact(stage.project.database, lambda tx: knowledge.enqueue(tx, "x", [Lesson("mine")], now))
    assert move(stage.project, url).rows["pending_retain"] == 1
    stage.project.database.unlink()
    use(stage, url)
    assert (waiting(stage.project.key), waiting("another")) == (["mine"], [])

    def teach(tx: Tx) -> None:
        knowledge.enqueue(tx, "x", [Lesson("theirs")], now, "another")
        knowledge.enqueue(tx, "x", [Lesson("anyone's")], now)

    transact(place_of(stage.project), teach)
    old = [found.lesson.content for found in knowledge.older(stage.read, now + 1, stage.project.key)]
    assert old == ["mine", "anyone's"], "what waits for another folder's memory is not given up here"
    assert move(stage.project, "sqlite").rows["pending_retain"] == 2
    (stage.home / "config.toml").unlink()
    assert waiting("another") == ["mine", "anyone's"], "nothing in a file is marked"


def test_nothing_is_moved_while_an_autopilot_runs(stage: Stage, url: str) -> None:
    with ProjectLock(stage.project.lock, "autopilot"):
        done = stage.sf("store", "migrate", url)
    assert (done.returncode, "project_locked" in done.stderr) == (5, True)
    use(stage, url)
    assert stage.sf("init").returncode == 0
    stage.project.database.unlink()
    with seat(place_of(stage.project)):
        done = stage.sf("store", "migrate", "sqlite")
    assert (done.returncode, "project_locked" in done.stderr) == (5, True)


def test_a_copy_that_fails_keeps_nothing(stage: Stage, url: str) -> None:
    stage.plan()
    stage.project.database.chmod(0o644)
    nowhere = stage.sf("store", "migrate", f"postgresql://me:{PASSWORD}@/x?host={stage.root}")
    assert (nowhere.returncode, "store_unusable" in nowhere.stderr, PASSWORD in nowhere.stderr) == (
        1,
        True,
        False,
    )
    same = stage.sf("store", "migrate", "sqlite")
    assert (same.returncode, "already" in same.stderr) == (2, True)
    for wrong in ("mysql://x/y", f"postgresql://me:{PASSWORD}@extra@host/x", "nonsense"):
        done = stage.sf("store", "migrate", wrong)
        assert (done.returncode, "invalid_config" in done.stderr, PASSWORD in done.stderr) == (2, True, False)


def guarded(place: Place, when: str, does: str) -> None:
    """Have the server do something with every unit that is written to a place, then or when it commits."""
    execute(
        place,
        f"CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; RETURN NEW; END $$;"
        f"CREATE {when} EXECUTE FUNCTION act()",
    )


def test_a_copy_whose_commit_was_cut_off_is_not_said_to_be_gone(stage: Stage, url: str) -> None:
    stage.plan("a goal")
    target = from_url(stage.project, url)
    transact(target, lambda tx: None)
    when = "CONSTRAINT TRIGGER cut AFTER INSERT ON units DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
    guarded(target, when, "PERFORM pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(StoreUnusable, match="is not known") as told:
        move(stage.project, url)
    assert "nothing was kept" not in told.value.line() and PASSWORD not in told.value.line()


def test_a_copy_to_a_server_that_is_slow_is_not_ended_by_the_other(stage: Stage, url: str) -> None:
    use(stage, f"{url}&options=-cidle_in_transaction_session_timeout%3D300")
    stage.project.database.unlink()
    stage.plan("a goal")
    name = ulid().lower()
    execute(place_of(stage.project), f"CREATE SCHEMA t_{name}")
    aim = f"{url}&options=-csearch_path%3Dt_{name}"
    target = Url(url, schema=f"t_{name}")
    transact(target, lambda tx: None)
    guarded(target, "TRIGGER slow BEFORE INSERT ON units FOR EACH ROW", "PERFORM pg_sleep(1)")
    assert move(stage.project, aim).rows["units"] == 1


def test_a_copy_to_a_file_is_there_whole_or_not_at_all(stage: Stage, url: str) -> None:
    use(stage, url)
    stage.project.database.unlink()
    stage.plan("a goal")
    place = place_of(stage.project)
    execute(place, "UPDATE units SET station = 'elsewhere-1'")
    with pytest.raises(BadUsage, match="elsewhere-1"):
        move(stage.project, "sqlite")
    assert list(stage.project.dot.glob("sf.db*")) == []
    execute(place, "UPDATE units SET station = NULL")
    for killed in ("sf.db", "sf.db-journal", "sf.db.new", "sf.db.new-wal"):
        (stage.project.dot / killed).write_bytes(b"" if killed == "sf.db" else b"the beginning of a copy")
    move(stage.project, "sqlite")
    assert [path.name for path in stage.project.dot.glob("sf.db*")] == ["sf.db"]
    assert execute(stage.project.database, "SELECT title FROM units") == [("a goal",)]
    with pytest.raises(StoreNotEmpty) as refused:
        move(stage.project, "sqlite")
    assert "move them away" in refused.value.line()
    assert execute(stage.project.database, "SELECT title FROM units") == [("a goal",)]


def test_a_store_that_another_holds_or_that_is_the_same_is_not_moved(stage: Stage, url: str) -> None:
    use(stage, f"{url}&options=-clock_timeout%3D200")
    stage.project.database.unlink()
    stage.plan()

    def meanwhile(tx: Tx) -> None:
        with pytest.raises(StoreUnusable, match=r"cannot lock .* lock timeout"):
            move(stage.project, "sqlite")

    transact(place_of(stage.project), meanwhile)
    assert not stage.project.database.exists()
    use(stage, url)
    with pytest.raises(BadUsage, match="already in"):
        move(stage.project, url.replace("postgresql://", "postgres://"))


def test_a_repository_cannot_choose_the_store(stage: Stage, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    stage.project.config.write_text(f'[store]\nurl = "$(touch {proof})"\n')
    stage.git("add", "-f", ".sf/config.toml")
    for command in (
        ["status"],
        ["plan", "x"],
        ["auto"],
        ["doctor"],
        ["store", "migrate", "postgresql://h/x"],
    ):
        done = stage.sf(*command)
        assert "may not choose where sf keeps its rows" in done.stdout + done.stderr, command
    assert not proof.exists()


def test_looking_at_a_file_imports_no_driver_and_no_configuration(stage: Stage) -> None:
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from sf.surfaces.cli.main import run; code = run(['status']);"
            "print(code, sorted({'psycopg', 'asyncio', 'sf.config.schema', 'pydantic'} & set(sys.modules)))",
        ],
        cwd=stage.root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] == "0 []"


def test_without_the_driver_the_store_says_what_to_install(stage: Stage, tmp_path: Path) -> None:
    use(stage, "postgresql://me@nowhere/x")
    hidden = tmp_path / "hidden"
    (hidden / "psycopg").mkdir(parents=True)
    (hidden / "psycopg" / "__init__.py").write_text("raise ImportError('not here')\n")
    done = stage.sf("status", env={"PYTHONPATH": str(hidden)})
    assert (done.returncode, "singularity-forge[postgres]" in done.stderr) == (1, True), done.stderr


def test_each_project_has_a_schema_of_its_own_unless_the_url_names_one(stage: Stage, url: str) -> None:
    use(stage, url)
    place = place_of(stage.project)
    assert isinstance(place, Url)
    assert place.schema.startswith("sf_project_")
    use(stage, f"{url}&options=-csearch_path%3Dshared")
    named = place_of(stage.project)
    assert isinstance(named, Url)
    assert named.schema == ""


def test_no_code_reaches_past_the_configuration_to_the_file() -> None:
    package = Path(sf.__file__).parent
    naming = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "project.database" in path.read_text()
    }
    assert naming == {"app/stores.py", "app/moving.py"}
    drivers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) (sqlite3|psycopg)\b", path.read_text(), re.MULTILINE)
    }
    assert drivers == {
        "store/sqlite.py",
        "store/postgres.py",
        "store/server.py",
        "store/wire.py",
        "scheduler/notices.py",
    }


def test_a_unit_is_reverted_while_nobody_works_from_the_server(stage: Stage, url: str) -> None:
    use(stage, url)
    assert stage.sf("init").returncode == 0
    stage.script(*SCENES)
    stage.plan()
    assert stage.auto().ending == "done"
    place = place_of(stage.project)
    assert isinstance(place, Url)
    with seat(place):
        refused = stage.sf("revert", "m1/s1", "--yes")
    assert refused.returncode == 5 and "another sf works from" in refused.stderr
    assert (stage.root / "one.txt").exists()
    done = stage.sf("revert", "m1/s1", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (stage.root / "one.txt").exists() and not stage.unit("slice/m1/s1").succeeded
    execute(place, "UPDATE units SET station = 'elsewhere-1'")
    foreign = stage.sf("revert", "m1", "--yes")
    assert foreign.returncode == 2 and "another folder: elsewhere-1" in foreign.stderr


def test_a_goal_that_is_written_down_is_not_said_to_have_failed(stage: Stage, server: Server) -> None:
    """A server with one connection left: the goal is written by it, and nothing else can be done."""
    role = f"r_{ulid().lower()}"
    server.do(f"CREATE ROLE {role} LOGIN")
    server.do(f"GRANT CREATE ON DATABASE postgres TO {role}")
    use(stage, server.url.value.replace("postgres:@", f"{role}:@"))
    assert stage.sf("init").returncode == 0
    server.do(f"ALTER ROLE {role} CONNECTION LIMIT 1")
    done = stage.sf("plan", "Pay every customer back")
    assert (done.returncode, "it is written down" in done.stdout + done.stderr) == (0, True), done
    server.do(f"ALTER ROLE {role} CONNECTION LIMIT -1")
    assert stage.sf("pause").returncode == 0
    assert len(units.listed(stage.read)) == 1
