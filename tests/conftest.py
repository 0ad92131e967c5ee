from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sf.store.place import Place
from tests.support.stores import Server

# New examples on every run, but for CI: whether a change lands is decided by the change.
settings.register_profile(
    "sf",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("sf")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL, one for all processes of the session."""
    # Not below pytest's own folder, which every other session closes to the server's user again.
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    made = Server(Path(tempfile.gettempdir()) / f"sf-postgres-{session}")
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store with nothing in it, on each kind of database."""
    if request.param == "sqlite":
        return tmp_path / "sf.db"
    made: Server = request.getfixturevalue("server")
    return made.fresh()
