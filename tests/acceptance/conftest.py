from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stage import Stage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A fresh project with its own sf home."""
    home = tmp_path / "home" / ".sf"
    monkeypatch.setenv("SF_HOME", str(home))
    return Stage(tmp_path / "project", home)
