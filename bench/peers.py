"""Loading what sf is compared with; the environment that runs sf itself does not have it."""

from __future__ import annotations

import importlib
import os
from typing import Any


class PeerMissing(Exception):
    """A peer cannot be imported, so its comparison cannot be made."""


def load(module: str) -> Any:
    """A peer's module. Raises PeerMissing."""
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerMissing(f"cannot import {module}: {error}") from error
