"""The memory server from outside: a process, plain HTTP, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.memory_server import MemoryServer, run, until

BANK = "project/0123456789abcdef"
PARSER = "The parser in src/app/parse_config.py fails on tabs in the header"
TESTS = "Run the test suite with two workers, or the database tests collide"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryServer]:
    with MemoryServer(tmp_path_factory.mktemp("memory") / "data") as made:
        yield made


@pytest.fixture
def bank(request: pytest.FixtureRequest) -> str:
    return f"project/{request.node.name}"


@pytest.mark.conforms("C-94")
def test_what_is_retained_over_http_is_recalled(server: MemoryServer, bank: str) -> None:
    entries = [{"content": PARSER, "tags": ["area:parser"], "metadata": {"unit": "u1"}}, {"content": TESTS}]
    kept = server.post("retain", {"bank": bank, "entries": entries})
    assert kept.status == 200
    assert [entry["status"] for entry in kept.body["entries"]] == ["stored", "stored"]
    found = server.post("recall", {"bank": bank, "query": "parseConfig", "top_k": 1, "deadline_ms": 30_000})
    assert found.status == 200
    (hit,) = found.body["entries"]
    assert (hit["content"], hit["tags"], hit["metadata"]) == (PARSER, ["area:parser"], {"unit": "u1"})
    assert hit["id"] == kept.body["entries"][0]["id"]
    assert hit["explanation"]["maturity"] == "candidate"
    assert found.body["degraded"] is False


def test_each_entry_is_told_what_became_of_it(server: MemoryServer, bank: str) -> None:
    entries = [
        {"content": TESTS},
        {"content": " "},
        {"content": "named", "document_id": "d1"},
        {"content": TESTS},
    ]
    answers = server.post("retain", {"bank": bank, "entries": entries}).body["entries"]
    assert [one["status"] for one in answers] == ["stored", "refused", "refused", "refused"]
    assert all(one["reason"] for one in answers[1:])
    again = server.post("retain", {"bank": bank, "entries": [{"content": TESTS}]}).body["entries"]
    assert (again[0]["status"], again[0]["id"]) == ("updated", answers[0]["id"])


def test_feedback_validate_and_forget(server: MemoryServer, bank: str) -> None:
    (entry,) = server.retain(bank, TESTS)
    assert server.post("feedback", {"id": entry, "signal": 1}).body == {"id": entry}
    assert server.post("validate", {"id": entry}).body == {"id": entry}
    assert server.post("validate", {"id": entry, "bank": bank}).status == 200
    assert server.post("validate", {"id": entry, "bank": "project/other"}).status == 404
    assert server.post("forget", {"bank": bank, "ids": [entry]}).body == {"forgotten": 1}
    gone = server.post("feedback", {"id": entry, "signal": 1})
    assert (gone.status, gone.body["error"]["code"]) == (404, "unknown_entry")


def test_three_harms_make_a_warning_that_a_filter_finds(server: MemoryServer, bank: str) -> None:
    (entry, _) = server.retain(bank, TESTS, PARSER)
    for _ in range(3):
        server.post("feedback", {"id": entry, "signal": -1})
    asked = {"bank": bank, "query": "tests", "filter": {"is_negative": True}}
    (hit,) = server.post("recall", asked).body["entries"]
    assert hit["content"].startswith("AVOID:")


def test_banks_are_counted(server: MemoryServer, bank: str) -> None:
    server.retain(bank, TESTS, PARSER)
    (found,) = [one for one in server.ask("GET", "/v1/banks").body["banks"] if one["bank"] == bank]
    assert found["entries"] == 2


def test_health_says_more_to_who_has_a_token(server: MemoryServer) -> None:
    assert server.ask("GET", "/v1/health", token=None).body == {"ok": True}
    told = server.ask("GET", "/v1/health").body
    assert told["ok"] and told["embedder"] and told["store"].endswith("memory.db")
    assert server.ask("GET", "/v1/health", token="wrong").status == 401


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("retain", {"bank": BANK}, "entries"),
        ("retain", {"bank": BANK, "entries": []}, "entries"),
        ("retain", {"bank": BANK, "entries": [{"content": "x"}] * 201}, "entries"),
        ("retain", {"bank": BANK, "entries": [{"content": 1}]}, "$.entries[0].content"),
        ("retain", {"bank": "", "entries": [{"content": "x"}]}, "bank"),
        ("retain", {"bank": "a\nb", "entries": [{"content": "x"}]}, "bank"),
        ("recall", {"bank": BANK}, "query"),
        ("recall", {"bank": BANK, "query": "x" * 10_001}, "query"),
        ("recall", {"bank": BANK, "query": "x", "top_k": 0}, "top_k"),
        ("recall", {"bank": BANK, "query": "x", "top_k": 101}, "top_k"),
        ("recall", {"bank": BANK, "query": "x", "deadline_ms": -1}, "deadline_ms"),
        ("recall", {"bank": BANK, "query": "x", "deadline_ms": 1e9}, "deadline_ms"),
        ("recall", {"bank": BANK, "query": "x", "rerank_quality": "best"}, "rerank_quality"),
        ("recall", {"bank": BANK, "query": "x", "filter": {"a": {"b": 1}}}, "filter"),
        ("recall", {"bank": BANK, "query": "x", "k": 1}, "k"),
        ("recall", {"bank": BANK, "query": "x", "filter": {"a": "\0"}}, "filter"),
        ("feedback", {"id": "a", "signal": 2}, "signal"),
        ("feedback", {"id": "\0", "signal": 1}, "id"),
        ("forget", {"bank": BANK}, "filter"),
        ("recall", {"bank": BANK, "query": "x", "filter": {"tags": ["a"] * 200}}, "filter"),
        ("forget", {"bank": BANK, "filter": {}}, "filter"),
        ("forget", {"bank": BANK, "filter": {"tags": []}}, "filter"),
    ],
)
def test_a_malformed_request_is_told_which_field(
    server: MemoryServer, path: str, body: Any, named: str
) -> None:
    reply = server.post(path, body)
    assert (reply.status, reply.body["error"]["code"]) == (400, "malformed")
    assert named in reply.body["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nope",
        b"\xff\xfe",
        b'{"bank": "b", "query": "\\ud800"}',
        b"[" * 200_000,
        b'{"bank": ' + b"[" * 200_000,
    ],
)
def test_what_is_not_json_is_refused(server: MemoryServer, body: bytes) -> None:
    reply = server.ask("POST", "/v1/recall", body)
    assert (reply.status, reply.body["error"]["code"]) == (400, "malformed")


def test_deep_metadata_does_no_harm(server: MemoryServer, bank: str) -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    body = b'{"bank": "%s", "entries": [{"content": "a fact told", "metadata": {"a": %s}}]}'
    reply = server.ask("POST", "/v1/retain", body % (bank.encode(), deep))
    assert reply.status == 400
    assert server.ask("GET", "/v1/health", token=None).body == {"ok": True}


def test_unknown_paths_and_methods_are_json_too(server: MemoryServer) -> None:
    assert server.ask("GET", "/v1/nothing").body["error"]["code"] == "no_such_place"
    assert server.ask("GET", "/v1/recall").status == 405


def test_a_token_is_needed(server: MemoryServer) -> None:
    for token in (None, "wrong", server.token[:-1], "ä"):
        reply = server.post("recall", {"bank": BANK, "query": "x"}, token=None, headers=_bearer(token))
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    basic = server.ask("GET", "/v1/banks", token=None, headers={"Authorization": f"Basic {server.token}"})
    assert basic.status == 401


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def test_another_host_or_origin_is_refused(server: MemoryServer) -> None:
    for headers in (
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{server.port}"},
    ):
        reply = server.ask("GET", "/v1/health", headers=headers)
        assert (reply.status, reply.body["error"]["code"]) == (403, "refused"), headers
    for host in (f"localhost:{server.port}", "127.0.0.1", f"[::1]:{server.port}"):
        assert server.ask("GET", "/v1/health", headers={"Host": host}).status == 200


def test_a_body_that_is_too_large_is_refused(server: MemoryServer) -> None:
    size = 8 * 1024 * 1024 + 1
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        head = f"POST /v1/retain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        answered = _send_chunks(connection, size)
        assert answered.startswith(b"HTTP/1.1 413")


def _send_chunks(connection: socket.socket, size: int) -> bytes:
    part = b"x" * 65536
    try:
        for _ in range(size // len(part) + 2):
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    except (BrokenPipeError, ConnectionResetError):
        return b"HTTP/1.1 413 (closed)"
    return connection.recv(100)


def test_a_slow_client_is_not_waited_for(tmp_path: Path) -> None:
    quick = ("--limit", "head_seconds=1", "--limit", "body_seconds=1", "--limit", "body_bytes=1000")
    with MemoryServer(tmp_path / "data", *quick) as server:
        assert _until_closed(server, b"GET /v1/health HTTP/1.1\r\nHost: local") == b""
        assert _until_closed(server, b"") == b""
        head = f"POST /v1/retain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        slow = _until_closed(server, f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert slow.startswith(b"HTTP/1.1 408") and b"too_slow" in slow
        assert server.post("retain", {"bank": BANK, "entries": [{"content": "x" * 1000}]}).status == 413
        assert server.ask("GET", "/v1/health").status == 200


def test_a_client_that_does_not_read_its_answer_is_let_go(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data", "--limit", "answer_seconds=1", "--limit", "requests=1") as server:
        words = (" ".join(f"word{n}x{m}" for m in range(6_000)) for n in range(10))
        assert all(server.retain(BANK, *(f"The parser: {text}" for text in words)))
        body = json.dumps({"bank": BANK, "query": "parser", "top_k": 100}).encode()
        head = f"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        asked = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        with socket.socket() as greedy:
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.connect((server.host, server.port))
            greedy.sendall(asked * 20)
            until(lambda: "did not read its answer" in server.said)
            until(lambda: server.ask("GET", "/v1/banks").status == 200)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def _until_closed(server: MemoryServer, sent: bytes) -> bytes:
    """All that the server says before it closes the connection."""
    said = b""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        connection.sendall(sent)
        try:
            while part := connection.recv(4096):
                said += part
        except ConnectionResetError:
            pass
    return said


def test_more_requests_than_it_takes_at_once_are_told_to_come_again(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data", "--limit", "requests=1") as server:
        head = f"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        with socket.create_connection((server.host, server.port), timeout=60) as slow:
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            until(lambda: server.ask("GET", "/v1/banks").status == 503)
            busy = server.ask("GET", "/v1/banks")
            assert (busy.status, busy.body["error"]["code"]) == (503, "too_busy")
            assert busy.headers["retry-after"] == "1"
        until(lambda: server.ask("GET", "/v1/banks").status == 200)


def test_a_stranger_holds_no_place_with_a_slow_body(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data", "--limit", "requests=1") as server:
        head = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"
        for way in ("Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
            with socket.create_connection((server.host, server.port), timeout=60) as slow:
                slow.sendall(f"{head}{way}".encode())
                assert slow.recv(100).startswith(b"HTTP/1.1 413")
                assert server.ask("GET", "/v1/banks").status == 200


def test_the_document_describes_what_is_answered(server: MemoryServer, bank: str) -> None:
    document = server.ask("GET", "/openapi.json", token=None).body
    assert document["openapi"].startswith("3.1")
    requests: dict[str, dict[str, Any]] = {
        "retain": {"bank": bank, "entries": [{"content": TESTS, "tags": ["a"], "metadata": {"k": [1]}}]},
        "recall": {"bank": bank, "query": "tests", "filter": {"tags": ["a"]}, "deadline_ms": 1000},
        "feedback": {"id": "", "signal": 1},
        "validate": {"id": ""},
        "forget": {"bank": bank, "filter": {"tags": ["a"]}},
    }
    entry = ""
    for name, body in requests.items():
        if "id" in body:
            body["id"] = entry
        place = document["paths"][f"/v1/{name}"]["post"]
        _valid(document, place["requestBody"], body)
        reply = server.post(name, body)
        assert reply.status == 200, reply
        _valid(document, place["responses"]["200"], reply.body)
        entry = entry or reply.body["entries"][0]["id"]
        wrong = server.post(name, {"bank": 1})
        _valid(document, place["responses"]["400"], wrong.body)
    for name in ("banks", "health"):
        place = document["paths"][f"/v1/{name}"]["get"]
        _valid(document, place["responses"]["200"], server.ask("GET", f"/v1/{name}").body)
    others = ("export", "import", "banks", "health")
    assert set(document["paths"]) == {f"/v1/{name}" for name in (*requests, *others)}


def _valid(document: Any, content: Any, value: Any) -> None:
    schema = content["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def test_a_bank_name_keeps_its_slashes_and_letters(server: MemoryServer) -> None:
    name = "проект/ü b/*"
    server.retain(name, TESTS)
    assert server.post("recall", {"bank": name, "query": "tests"}).body["entries"][0]["content"] == TESTS


def test_the_first_token_is_for_its_owner_only_and_stays(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data") as server:
        mode = stat.S_IMODE((tmp_path / "data" / "token").stat().st_mode)
        assert mode == 0o600
        first = server.token
        assert first not in server.said
    with MemoryServer(tmp_path / "data") as server:
        assert server.token == first
    (tmp_path / "data" / "token").chmod(0o644)
    refused = run(["serve", "--port", "0", "--data", str(tmp_path / "data"), "--embedder", "none"])
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "chmod 600" in refused.stderr


def test_a_folder_and_a_port_have_one_server(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data") as server:
        again = run(["serve", "--port", "0", "--data", str(tmp_path / "data"), "--embedder", "none"])
        assert (again.returncode, again.stdout) == (1, "")
        assert "is served by process" in again.stderr and again.stderr.count("\n") == 1
        port = run(
            ["serve", "--port", str(server.port), "--data", str(tmp_path / "other"), "--embedder", "none"]
        )
        assert (port.returncode, port.stdout) == (1, "")
        assert f"port {server.port}" in port.stderr and port.stderr.count("\n") == 1
        assert server.ask("GET", "/v1/health").status == 200


def test_listening_beyond_this_machine_must_be_meant(tmp_path: Path) -> None:
    refused = run(["serve", "--port", "0", "--data", str(tmp_path / "data"), "--host", "0.0.0.0"])
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--allow-remote" in refused.stderr
    with MemoryServer(
        tmp_path / "data", "--host", "0.0.0.0", "--allow-remote", "--allow-host", "m.example"
    ) as server:
        assert "warning" in server.said
        assert server.ask("GET", "/v1/health", headers={"Host": "m.example"}).status == 200
        assert server.ask("GET", "/v1/health", headers={"Host": "other.example"}).status == 403


def test_a_page_of_a_configured_origin_is_served(tmp_path: Path) -> None:
    page = {"Origin": "https://notes.example"}
    with MemoryServer(tmp_path / "data", "--allow-origin", "https://notes.example") as server:
        asked = {
            **page,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        first = server.ask("OPTIONS", "/v1/recall", token=None, headers=asked, text=True)
        assert (first.status, first.headers["access-control-allow-origin"]) == (200, page["Origin"])
        then = server.ask("GET", "/v1/banks", headers=page)
        assert (then.status, then.headers["access-control-allow-origin"]) == (200, page["Origin"])
        assert server.ask("GET", "/v1/banks", token=None, headers=page).status == 401
        assert server.ask("GET", "/v1/banks", headers={"Origin": "https://other.example"}).status == 403


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_requests_in_hand_answered(tmp_path: Path, number: signal.Signals) -> None:
    entries = [{"content": f"fact {n} about module_{n} and its tests " + "word " * 2000} for n in range(150)]
    replies: list[Any] = []
    with MemoryServer(tmp_path / "data") as server:
        token = server.token

        def retain() -> None:
            replies.append(server.post("retain", {"bank": BANK, "entries": entries}, token=token))

        asking = threading.Thread(target=retain)
        asking.start()
        until(lambda: _in_hand(server))
        server.signal(number)
        asking.join()
        assert server.wait() == 0
    assert [reply.status for reply in replies] == [200]


def _in_hand(server: MemoryServer) -> bool:
    """Whether the server has read a whole request that it has not answered: its socket's queue is empty."""
    rows = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    mine = [row.split() for row in rows if row.split()[1].endswith(f":{server.port:04X}")]
    return any(row[3] == "01" and row[4] == "00000000:00000000" for row in mine)


def test_json_is_what_a_shell_would_send(server: MemoryServer, bank: str) -> None:
    body = json.dumps({"bank": bank, "entries": [{"content": TESTS}]}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("POST", "/v1/retain", body, headers=form).status == 200


def test_what_was_imported_is_found_by_meaning_soon(server: MemoryServer, bank: str) -> None:
    lines = [{"content": TESTS}, {"content": PARSER}]
    assert server.post("import", {"bank": bank, "lines": lines}).status == 200

    def unembedded() -> int:
        banks = server.ask("GET", "/v1/banks").body["banks"]
        return next(int(one["unembedded"]) for one in banks if one["bank"] == bank)

    until(lambda: unembedded() == 0)
    best = server.post("recall", {"bank": bank, "query": "executing the checks in parallel"}).body["entries"]
    assert best and best[0]["explanation"]["similarity"] is not None
