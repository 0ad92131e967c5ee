from __future__ import annotations

from collections.abc import Iterator

import pytest

from sf.store.place import Place
from tests.support.ground import Ground


@pytest.fixture
def ground(place: Place) -> Iterator[Ground]:
    made = Ground(place)
    yield made
    made.close()
