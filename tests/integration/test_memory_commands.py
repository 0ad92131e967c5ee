"""`singularity-memory` from a shell: on a folder, on a server, its tokens, its mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from singularity_memory.cli.main import COMMANDS, SUMMARIES
from tests.support.memory_server import MemoryServer, run

BANK = "project/shell"
TESTS = "Run the test suite with two workers, or the database tests collide"
PARSER = "The parser in src/app/parse_config.py fails on tabs in the header"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryServer]:
    with MemoryServer(tmp_path_factory.mktemp("shell") / "data") as made:
        yield made


@pytest.fixture(params=["folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The options that say where the memory is; the answers are the same."""
    if request.param == "folder":
        return ["--data", str(tmp_path / "data"), "--embedder", "static"]
    server: MemoryServer = request.getfixturevalue("server")
    for bank in (BANK, "project/copy"):
        server.post("forget", {"bank": bank, "filter": {"set": "shell"}})
    return ["--url", server.url, "--token-file", str(server.data / "token")]


def test_retain_recall_stats_export_and_import(place: list[str], tmp_path: Path) -> None:
    marked = ["--meta", "set=shell"]
    kept = run(["retain", *place, BANK, TESTS, "--tag", "area:tests", *marked])
    assert (kept.returncode, kept.stdout.split()[0]) == (0, "stored"), kept.stderr
    piped = run(["retain", *place, BANK, "--json", *marked], stdin=PARSER)
    assert json.loads(piped.stdout)["entries"][0]["status"] == "stored"
    found = run(["recall", *place, BANK, "parseConfig", "-k", "1"])
    assert (found.returncode, PARSER in found.stdout, TESTS in found.stdout) == (0, True, False)
    told = run(["recall", *place, BANK, "tests", "--tag", "area:tests", "--filter", "set=shell", "--json"])
    (hit,) = json.loads(told.stdout)["entries"]
    assert (hit["content"], hit["metadata"]) == (TESTS, {"set": "shell"})
    stats = json.loads(run(["stats", *place, "--json"]).stdout)["banks"]
    assert {one["bank"]: one["entries"] for one in stats}[BANK] == 2
    exported = run(["export", *place, BANK])
    assert [json.loads(line)["content"] for line in exported.stdout.splitlines()] == [TESTS, PARSER]
    file = tmp_path / "bank.jsonl"
    file.write_text(exported.stdout + '{"content": " "}\n', encoding="utf-8")
    brought = run(["import", *place, "project/copy", str(file)])
    assert (brought.returncode, brought.stdout) == (0, "2 stored, 0 updated, 1 refused\n"), brought.stderr
    copied = run(["recall", *place, "project/copy", "how do I execute the tests?", "--json"])
    assert json.loads(copied.stdout)["entries"][0]["content"] == TESTS


def test_what_is_refused_or_wrong_is_one_line_and_a_code(tmp_path: Path, server: MemoryServer) -> None:
    here = ["--data", str(tmp_path / "data"), "--embedder", "none"]
    there = ["--url", server.url, "--token-file", str(server.data / "token")]
    notes = tmp_path / "notes"
    notes.write_text("not json\n", encoding="utf-8")
    for arguments, code in (
        (["retain", *here, BANK, " "], 1),
        (["retain", *here, "", "a fact"], 2),
        (["recall", *here, BANK, "x" * 10_001], 2),
        (["recall", *there, "a\nb", "x"], 2),
        (["recall", *here, BANK, "x", "--filter", "nothing"], 2),
        (["recall", *here], 2),
        (["recall", "--data", str(tmp_path / "none"), "--embedder", "none", BANK, "x"], 2),
        (["import", *here, BANK, str(notes)], 2),
        (["stats", "--data", str(notes)], 2),
        (["retain", "--data", str(notes / "below"), "--embedder", "none", BANK, "two words told"], 1),
        (["stats", "--url", "http://127.0.0.1:9"], 1),
        (["stats", "--url", server.url], 1),
        (["stats", "--url", server.url, "--token-file", str(notes)], 2),
        (["serve", *here, "--limit", "nothing=1"], 2),
        (["serve", *here, "--limit", "requests=0"], 2),
        (["token", "add", "x", "--bank", "a*b", "--read", "--data", str(tmp_path / "data")], 2),
        (["nothing"], 2),
    ):
        done = run(arguments)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), (arguments, done)


@pytest.mark.parametrize(
    "bad", [b"\xff\xfe", b'{"content": "half', b"[" * 50_000, b'{"content": "\xff bytes"}']
)
def test_an_import_that_ends_badly_names_the_line_and_keeps_those_before(tmp_path: Path, bad: bytes) -> None:
    here = ["--data", str(tmp_path / "data"), "--embedder", "none"]
    file = tmp_path / "half.jsonl"
    good = json.dumps({"content": "\x1b[2J" + PARSER}).encode()
    file.write_bytes(b"\xef\xbb\xbf" + good + b"\n\n" + bad)
    ended = run(["import", *here, BANK, str(file)])
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "line 3" in ended.stderr, ended.stderr
    found = run(["recall", *here, BANK, "parseConfig"])
    assert PARSER in found.stdout and "\x1b" not in found.stdout


def test_tokens_open_their_banks_only_and_are_heeded_at_once(server: MemoryServer) -> None:
    data = ["--data", str(server.data)]
    server.retain("project/a", TESTS)
    server.retain("global/coding", TESTS)
    reader = run(["token", "add", "reader", "--bank", "project/*", "--read", *data]).stdout.strip()
    writer = run(["token", "add", "writer", "--bank", "project/a", "--write", *data]).stdout.strip()
    (entry,) = server.retain("project/a", TESTS)
    (other,) = server.retain("global/coding", TESTS)

    def status(what: str, body: object, token: str) -> int:
        return server.post(what, body, token=token).status

    assert status("recall", {"bank": "project/a", "query": "tests"}, reader) == 200
    assert status("recall", {"bank": "global/coding", "query": "tests"}, reader) == 403
    assert status("retain", {"bank": "project/a", "entries": [{"content": TESTS}]}, reader) == 403
    assert status("validate", {"id": entry}, reader) == 403
    assert status("export", {"bank": "global/coding"}, reader) == 403
    assert status("retain", {"bank": "project/a", "entries": [{"content": TESTS}]}, writer) == 200
    assert status("retain", {"bank": "project/ab", "entries": [{"content": TESTS}]}, writer) == 403
    assert status("recall", {"bank": "project/a", "query": "tests"}, writer) == 403
    assert status("validate", {"id": entry}, writer) == 200
    assert status("validate", {"id": entry, "bank": "project/a"}, writer) == 200
    assert status("feedback", {"id": other, "signal": -1}, writer) == 404
    assert status("feedback", {"id": other, "signal": -1, "bank": "project/a"}, writer) == 404
    assert status("feedback", {"id": other, "signal": -1, "bank": "global/coding"}, writer) == 403
    assert status("forget", {"bank": "project/a", "ids": [other]}, writer) == 200
    assert server.post("recall", {"bank": "global/coding", "query": "tests"}).body["entries"]
    seen = server.ask("GET", "/v1/banks", token=reader).body["banks"]
    assert seen and all(bank["bank"].startswith("project/") for bank in seen)
    assert server.ask("GET", "/v1/health", token=reader).body == {"ok": True}
    assert run(["token", "revoke", "reader", *data]).returncode == 0
    assert status("recall", {"bank": "project/a", "query": "tests"}, reader) == 401


def test_a_token_is_never_shown_again(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data")]
    token = run(["token", "add", "ci", "--bank", "*", "--read", *data]).stdout.strip()
    kept = tmp_path / "data" / "tokens.json"
    listed = run(["token", "list", *data]).stdout + run(["token", "list", "--json", *data]).stdout
    assert token not in kept.read_text(encoding="utf-8") + listed
    assert kept.stat().st_mode & 0o077 == 0
    assert "ci" in listed
    again = run(["token", "add", "ci", "--bank", "*", "--read", *data])
    assert (again.returncode, again.stdout) == (2, "")


def test_every_command_has_help_that_shows_it(tmp_path: Path) -> None:
    assert set(COMMANDS) == set(SUMMARIES)
    whole = run(["--help"]).stdout
    for command in COMMANDS:
        assert SUMMARIES[command].split()[0] in whole
        told = run([command, "--help"])
        assert told.returncode == 0 and told.stdout.startswith("Usage: singularity-memory")
