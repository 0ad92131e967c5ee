from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from sf.store.place import Place
from tests.support.ground import Ground

settings.register_profile("sf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sf")


@pytest.fixture
def ground(place: Place) -> Iterator[Ground]:
    made = Ground(place)
    yield made
    made.close()
