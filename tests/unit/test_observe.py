"""Log, trace and bus: one line an entry, nothing lost, and no observer can stop the work."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf import __version__
from sf.app.witnesses import gatherer
from sf.config.schema import Hooks
from sf.config.schema import Log as Settings
from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.observe import trace
from sf.observe.bus import Bus
from sf.observe.log import Log
from sf.observe.trace import Tracer
from tests.support.ground import Ground


def tokens(line: str) -> dict[str, str]:
    """The `key=value` pairs of a line, read by hand."""
    found: dict[str, str] = {}
    rest = line
    while "=" in rest:
        head, _, rest = rest.partition("=")
        key = head.rsplit(" ", 1)[-1]
        if rest.startswith('"'):
            end = 1
            while rest[end] != '"':
                end += 2 if rest[end] == "\\" else 1
            found[key], rest = rest[1:end].replace('\\"', '"'), rest[end + 1 :]
        else:
            found[key], _, rest = rest.partition(" ")
    return found


@pytest.mark.conforms("C-31")
def test_a_line_has_a_time_a_level_a_message_and_its_fields(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log")
    log.info(
        "gate completed", unit_id="task/a1", unit_type="task", passed=True, note="two words", nothing=None
    )
    log.warning("hook failed", command='say "hi" = x')
    first, second = (tmp_path / "sf.log").read_text().splitlines()
    assert first.split(" ", 2)[1:] == [
        "INFO",
        'gate completed unit_id=task/a1 unit_type=task passed=True note="two words"',
    ]
    assert tokens(second)["command"] == 'say "hi" = x'


@pytest.mark.conforms("C-31", "C-32")
@given(st.text(st.characters(), max_size=60), st.text(st.characters(), max_size=60))
def test_an_entry_is_one_line_whatever_is_in_it(message: str, value: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sf.log"
        Log(path).error(message, unit_id="task/a1", value=value)
        raw = path.read_bytes()
    assert raw.count(b"\n") == 1
    assert b"\r" not in raw
    assert b" unit_id=task/a1 " in raw


@pytest.mark.conforms("C-31")
def test_a_long_value_is_cut_at_two_kilobytes_and_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log")
    log.info("hook completed", output="é" * 5000)
    line = (tmp_path / "sf.log").read_text()
    assert "(truncated)" in line
    assert line.count("é") == 1024


@pytest.mark.conforms("C-32")
def test_the_log_is_rotated_by_size_and_keeps_so_many_files(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log", max_size=1000, max_files=3)
    for number in range(100):
        log.info(f"entry {number:03}", padding="x" * 50)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["sf.log", "sf.log.1", "sf.log.2"]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())
    text = "".join((tmp_path / name).read_text() for name in ("sf.log.2", "sf.log.1", "sf.log"))
    numbers = [int(line.split("entry ")[1][:3]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 100)), "the newest entries are all there, in order"


@pytest.mark.conforms("C-32")
def test_the_defaults_are_ten_megabytes_five_files_and_no_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (Settings().max_size, Settings().max_files, Settings().stderr) == (10 * 1024 * 1024, 5, False)
    Log(tmp_path / "sf.log").info("quiet")
    assert capsys.readouterr().err == ""
    Log(tmp_path / "sf.log", stderr=True).info("loud")
    assert "loud" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = Log(tmp_path / "file" / "sf.log")
    log.info("into the void")
    assert log.sink_failures == 1


def test_a_rotation_that_fails_does_not_stop_the_work(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log", max_size=100, max_files=2)
    in_the_way = tmp_path / "sf.log.1"
    in_the_way.mkdir()
    log.info("one", detail="x" * 80)
    log.info("two", detail="x" * 80)
    log.info("three", detail="x" * 80)
    assert log.sink_failures == 2
    in_the_way.rmdir()
    log.info("four")
    assert " one " in in_the_way.read_text() and " four" in (tmp_path / "sf.log").read_text()


def test_a_stderr_that_nobody_reads_does_not_stop_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb", buffering=0) as end:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(end, write_through=True))
        log = Log(tmp_path / "sf.log", stderr=True)
        log.keep(1, "one", {})
        log.info("two")
        assert log.sink_failures == 1
    log.info("three")
    assert [line.split(" ")[2] for line in log_lines(tmp_path)] == ["one", "two", "three"]


def log_lines(folder: Path) -> list[str]:
    return (folder / "sf.log").read_text().splitlines()


def test_what_is_kept_for_a_moment_is_written_before_what_comes_after_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log")
    assert log.keep(1_767_225_600_007, "first", {"unit_id": "task/a1", "note": "", "nothing": None})
    assert not log.keep(1_767_225_600_008, "second", {"note": "two words"})
    assert not (tmp_path / "sf.log").exists()
    log.warning("third")
    first, second, third = (tmp_path / "sf.log").read_text().splitlines()
    assert first == '2026-01-01T00:00:00.007Z INFO first unit_id=task/a1 note=""'
    assert second == '2026-01-01T00:00:00.008Z INFO second note="two words"'
    assert third.endswith("WARNING third")
    assert log.keep(1_767_225_600_009, "fourth", {}), "the first that is kept again"
    log.flush()
    log.flush()
    assert [line.split()[2] for line in (tmp_path / "sf.log").read_text().splitlines()][3:] == ["fourth"]


def test_lines_that_are_written_together_are_rotated_like_others(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log", max_size=1000, max_files=3)
    for number in range(100):
        log.keep(0, f"entry {number:03}", {"padding": "x" * 50})
    log.flush()
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())
    text = "".join((tmp_path / name).read_text() for name in ("sf.log.2", "sf.log.1", "sf.log"))
    numbers = [int(line.split("entry ")[1][:3]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 100)) and len(numbers) > 20


async def test_what_a_loop_logs_together_stands_in_the_log_a_moment_later(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log")
    write = gatherer(log)
    write(Event(events.RUN_ENDED, Instant(1), "task/a1", {"run_id": "r", "outcome": "success"}))
    write(Event(events.WARNING, Instant(2), "", {"detail": "not for the log"}))
    assert not (tmp_path / "sf.log").exists()
    await asyncio.sleep(0.2)
    assert (
        "RunEnded unit_id=task/a1 unit_type=task run_id=r outcome=success"
        in (tmp_path / "sf.log").read_text()
    )
    write(Event(events.HELD, Instant(3), "task/a1", {"kind": "blocked"}))
    write(Event(events.WARNING, Instant(4), "", {"detail": "look here", "log": True}))
    lines = (tmp_path / "sf.log").read_text().splitlines()
    assert [line.split(" ", 1)[1].split()[:2] for line in lines[1:]] == [
        ["INFO", "Held"],
        ["WARNING", "look"],
    ]


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "sf.log")

    def work(name: str) -> None:
        for _ in range(50):
            log.info("line", who=name * 100)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "sf.log").read_text().splitlines()
    assert len(lines) == 200
    assert all(len(set(line.rpartition("=")[2])) == 1 for line in lines)


# --- trace ---


def emit(tracer: Tracer, number: int) -> None:
    tracer.span("tool_call", trace_id="t", started_at=1, attrs={"n": number})


@pytest.mark.conforms("C-33")
def test_no_span_is_lost_from_many_threads_and_a_small_buffer(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path, buffer=5)

    def work(start: int) -> None:
        for number in range(start, start + 200):
            emit(tracer, number)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 200, 400, 600)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    file = tracer.current_file()
    tracer.close()
    spans = trace.read(file)
    assert sorted(span["attrs"]["n"] for span in spans) == list(range(800))
    assert len({span["span_id"] for span in spans}) == 800


@pytest.mark.conforms("C-79")
def test_the_first_line_of_a_file_says_its_version(tmp_path: Path) -> None:
    for _ in range(2):
        tracer = Tracer(tmp_path, today=lambda: "2026-01-01")
        emit(tracer, 1)
        tracer.close()
    file = tmp_path / "trace-2026-01-01.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["_meta"] is True
    assert lines[0]["trace_schema_version"] == trace.SCHEMA_VERSION
    assert lines[0]["sf_version"] == __version__
    assert lines[0]["created_at"].endswith("Z")
    assert [bool(line.get("_meta")) for line in lines] == [True, False, False], "only once"
    assert len(trace.read(file)) == 2


@pytest.mark.conforms("C-79")
def test_a_reader_refuses_a_version_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"_meta":true,"trace_schema_version":99}\n{"trace_id":"x"}\n')
    with pytest.raises(ValueError, match="99"):
        trace.read(file)


def test_a_span_with_half_a_character_is_written_and_the_next_one_too(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path, buffer=1, today=lambda: "2026-01-31")
    for path in ("caf\udce9.txt", "a.txt"):
        tracer.span("run", trace_id="x", started_at=0, attrs={"path": path})
    tracer.close()
    written = trace.read(tmp_path / "trace-2026-01-31.jsonl")
    assert [span["attrs"]["path"] for span in written] == ["caf\\udce9.txt", "a.txt"]


def test_each_day_has_a_file_of_its_own(tmp_path: Path) -> None:
    day = "2026-01-01"
    tracer = Tracer(tmp_path, today=lambda: day)
    emit(tracer, 1)
    deadline = time.monotonic() + 10
    while not tracer.current_file().exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    day = "2026-01-02"
    emit(tracer, 2)
    tracer.close()
    assert sorted(file.name for file in tmp_path.glob("trace-*")) == [
        "trace-2026-01-01.jsonl",
        "trace-2026-01-02.jsonl",
    ]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path)
    emit(tracer, 1)
    file = tracer.current_file()
    tracer.close()
    with file.open("ab") as out:
        out.write(b'{"trace_id":"t","span')
    assert [span["attrs"]["n"] for span in trace.read(file)] == [1]


def test_a_span_that_comes_after_the_end_holds_nobody_up(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path, buffer=1)
    tracer.close()

    def work() -> None:
        for number in range(3):
            emit(tracer, number)

    late = threading.Thread(target=work, daemon=True)
    late.start()
    late.join(timeout=10)
    assert not late.is_alive()


@pytest.mark.conforms("C-33")
def test_spans_written_after_a_crash_can_be_read(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path)
    emit(tracer, 1)
    file = tracer.current_file()
    tracer.close()
    with file.open("ab") as out:
        out.write(b'{"trace_id":"t","span')
    again = Tracer(tmp_path)
    emit(again, 2)
    emit(again, 3)
    again.close()
    assert [span["attrs"]["n"] for span in trace.read(file)] == [1, 2, 3]


# --- bus ---


def test_every_subscriber_is_told_in_order_until_it_leaves() -> None:
    bus = Bus()
    heard: list[str] = []
    leave = bus.subscribe(lambda event: heard.append("a " + event.name))
    bus.subscribe(lambda event: heard.append("b " + event.name))
    bus.publish(Event("One", Instant(0)))
    leave()
    bus.publish(Event("Two", Instant(0)))
    assert heard == ["a One", "b One", "b Two"]


def test_a_subscriber_that_names_events_is_told_of_no_others() -> None:
    bus = Bus()
    heard: list[str] = []
    bus.publish(Event("One", Instant(0)))
    leave = bus.subscribe(lambda event: heard.append("some " + event.name), "One", "Two")
    bus.subscribe(lambda event: heard.append("all " + event.name))
    for name in ("One", "Three"):
        bus.publish(Event(name, Instant(0)))
    leave()
    bus.publish(Event("Two", Instant(0)))
    assert heard == ["some One", "all One", "all Three", "all Two"]


@pytest.mark.conforms("C-62")
def test_nobody_can_veto_a_phase_change(ground: Ground) -> None:
    """The change is on disk before it is told, and a listener that raises is only reported."""
    reported: list[str] = []
    bus = Bus(reported.append)
    heard: list[str] = []

    def refuses(event: Event) -> None:
        raise RuntimeError("I forbid this")

    bus.subscribe(refuses)
    bus.subscribe(lambda event: heard.append(event.name))
    ground.plant()
    ground.run("milestone/m1", o.Done())
    for event in ground.events:
        bus.publish(event)
    assert ground.unit("milestone/m1").phase == "plan"
    assert events.PHASE_CHANGE in heard
    assert any("I forbid this" in line for line in reported)


@pytest.mark.conforms("C-62")
def test_there_is_no_hook_that_could_refuse_a_phase_change() -> None:
    assert "pre_dispatch" in Hooks.__struct_fields__
    assert not [name for name in Hooks.__struct_fields__ if "phase" in name]


def test_nothing_in_the_log_steers_the_terminal_of_who_reads_it(tmp_path: Path) -> None:
    Log(tmp_path / "log").info("asked", text="\x1b[2J\u202eno\x9b", plain="café")
    line = (tmp_path / "log").read_text()
    assert not set(line) & {"\x1b", "\u202e", "\x9b"}
    assert "\\u001b[2J\\u202eno\\u009b" in line and "café" in line
