"""Named queries, read from the files in `queries/`."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(aggregate: str) -> dict[str, str]:
    """The queries of one file, by name."""
    parts = _NAME.split((_FOLDER / f"{aggregate}.sql").read_text(encoding="utf-8"))
    return {parts[i]: parts[i + 1].strip() for i in range(1, len(parts), 2)}
