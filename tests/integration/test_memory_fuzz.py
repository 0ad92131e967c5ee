"""Whatever is sent, the memory server answers in its own words and stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.memory_server import MemoryServer

BANK = "project/fuzz"
BODIES: dict[str, dict[str, Any]] = {
    "retain": {
        "bank": BANK,
        "entries": [
            {"content": "a fact that was told", "tags": ["a"], "metadata": {"k": "v"}, "document_id": "d"}
        ],
    },
    "recall": {
        "bank": BANK,
        "query": "facts",
        "top_k": 3,
        "filter": {"tags": ["a"]},
        "rerank_quality": "accurate",
        "deadline_ms": 100,
    },
    "feedback": {"id": "x", "signal": 1, "bank": BANK},
    "validate": {"id": "x", "bank": BANK},
    "forget": {"bank": BANK, "ids": ["x"], "document_ids": ["y"], "filter": {"tags": ["none"]}},
    "export": {"bank": BANK, "after": 0, "limit": 5},
    "import": {
        "bank": BANK,
        "lines": [
            {
                "content": "a fact that was told",
                "tags": [],
                "metadata": {},
                "standing": {
                    "created_at": 0,
                    "updated_at": 0,
                    "fresh_at": 0,
                    "helpful": 1,
                    "observations": 1,
                },
            }
        ],
    },
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["\x00", "\ud83d\ude00", "' OR 1=1 --", '" NEAR(', "*", "a:b", "-", "💥" * 50, "\u202e"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryServer]:
    with MemoryServer(tmp_path_factory.mktemp("fuzz") / "data") as made:
        yield made


def _spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from _spots(below, (*path, key))


def _changed(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(body))
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return made


CHANGES = [(name, path) for name, body in BODIES.items() for path in _spots(body)]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CHANGES), VALUES)
def test_a_value_of_any_kind_in_any_place_never_fails_the_server(
    server: MemoryServer, change: tuple[str, tuple[Any, ...]], value: Any
) -> None:
    name, path = change
    reply = server.post(name, _changed(BODIES[name], path, value))
    assert reply.status in (200, 400, 404), (name, path, value, reply)
    if reply.status != 200:
        assert set(reply.body["error"]) == {"code", "message"}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(BODIES)), st.binary(max_size=200))
def test_bytes_of_any_kind_never_fail_the_server(server: MemoryServer, name: str, body: bytes) -> None:
    assert server.ask("POST", f"/v1/{name}", body).status == 400
