from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.ground import Ground

settings.register_profile("sf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sf")


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "sf.db")
    yield made
    made.close()
