"""Copying a store: every row arrives as it was, or none does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from sf.domain import outcomes as o
from sf.domain.budget import Budget
from sf.domain.dialogue import Usage
from sf.domain.runs import TurnKind
from sf.errors import StoreNotEmpty
from sf.store import copying, runs
from sf.store.engine import Connection
from sf.store.place import Place
from sf.store.runs import TurnRecord
from sf.store.tx import Cursor, Tx
from tests.support.ground import Ground
from tests.support.stores import RULE_BROKEN, Server


@pytest.fixture(params=["to a server", "to a file", "from server to server"])
def ends(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Iterator[tuple[Ground, Ground]]:
    """A store with rows of every kind, and an empty one."""
    places: dict[str, tuple[Place, Place]] = {
        "to a server": (tmp_path / "old.db", server.fresh()),
        "to a file": (server.fresh(), tmp_path / "new.db"),
        "from server to server": (server.fresh(), server.fresh()),
    }
    old, new = (Ground(place) for place in places[request.param])
    fill(old)
    old.in_disorder = new.in_disorder = True
    yield old, new
    old.close()
    new.close()


def fill(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.plant()
    # A parent whose id and age both come after its child's: the order of the rows must be found.
    ground.connection.execute("UPDATE units SET parent_id = 'milestone/m1' WHERE id = 'task/a1'")
    ground.run("milestone/m1", o.Failed("turn_failed", "naïve “text” with 'quotes', % and :colons"))
    lease = ground.claim("task/a1")
    assert lease is not None
    usage = Usage(input_tokens=2**40, output_tokens=1, cost_micro_usd=2**53)
    record = TurnRecord(
        1, TurnKind.FIRST, "script:x", None, 0, usage, Budget(1, 0.8, 0.95), (bytes(range(256)), b"")
    )
    ground.write(lambda tx: runs.record_turn(tx, lease, record, ground.now))
    ground.intend("pause")


class Told:
    """A connection that keeps what it was told."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.told: list[str] = []

    def execute(self, sql: str, *parameters: Mapping[str, Any]) -> Cursor:
        self.told.append(sql)
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_every_row_arrives_as_it_was(ends: tuple[Ground, Ground]) -> None:
    old, new = ends
    before = old.dump()
    copied = new.write(lambda tx: copying.copy(old.connection, new.connection))
    after = new.dump()
    assert {name: rows for name, rows in after.items() if name != "schema_migrations"} == {
        name: rows for name, rows in before.items() if name != "schema_migrations"
    }
    assert copied == {name: len(rows) for name, rows in before.items() if name != "schema_migrations"}
    assert copied["messages"] == 2
    assert new.unit("task/a1").parent_id == "milestone/m1"


def test_many_rows_go_in_few_statements_of_a_size_that_is_taken(ends: tuple[Ground, Ground]) -> None:
    old, new = ends
    text = "INSERT INTO workflow_pins VALUES (:hash, 'n', :content, 1)"

    def pin(tx: Tx) -> None:
        for number in range(2_000):
            tx.run(text, hash=f"{number:04}", content="x" * (600_000 if number < 3 else 10))

    old.write(pin)
    target = Told(new.connection)
    copied = new.write(lambda tx: copying.copy(old.connection, cast(Connection, target)))
    assert copied["workflow_pins"] >= 2_000
    assert len([sql for sql in target.told if 'INTO "workflow_pins"' in sql]) in range(8, 20)
    assert new.dump()["workflow_pins"] == old.dump()["workflow_pins"]


def test_a_copy_that_breaks_off_leaves_nothing(ends: tuple[Ground, Ground]) -> None:
    old, new = ends
    new.connection.execute("CREATE UNIQUE INDEX in_the_way ON messages(turn)")
    with pytest.raises(RULE_BROKEN):
        new.write(lambda tx: copying.copy(old.connection, new.connection))
    assert all(not rows for name, rows in new.dump().items() if name != "schema_migrations")


def test_a_store_with_rows_is_not_copied_into(ends: tuple[Ground, Ground]) -> None:
    old, new = ends
    new.plant(adhoc=True)
    before = new.dump()
    with pytest.raises(StoreNotEmpty, match="units"):
        new.write(lambda tx: copying.copy(old.connection, new.connection))
    assert new.dump() == before


def test_tables_come_after_those_they_refer_to(ends: tuple[Ground, Ground]) -> None:
    for ground in ends:
        order = copying.tables(ground.connection)
        assert "schema_migrations" not in order
        for name in order:
            for parent in set(ground.connection.parents(name)) - {name}:
                assert order.index(parent) < order.index(name)
