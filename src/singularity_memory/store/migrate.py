"""The schema: numbered SQL files, applied once each; `NNNN_name.postgres.sql` is for that server."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "migrations"


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    file: Path

    def statements(self) -> list[str]:
        """What it executes."""
        parts = self.file.read_text(encoding="utf-8").split(";\n")
        return [part.strip() for part in parts if part.strip()]


def known(dialect: str) -> list[Migration]:
    """Every migration for a kind of database, in order."""
    suffix = "" if dialect == "sqlite" else f".{dialect}"
    found = [file for file in FOLDER.glob("*.sql") if file.stem.partition(".")[1:] == _tail(suffix)]
    return sorted(Migration(int(file.stem.partition("_")[0]), file) for file in found)


def _tail(suffix: str) -> tuple[str, str]:
    return (".", suffix[1:]) if suffix else ("", "")
