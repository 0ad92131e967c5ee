"""Write tests/golden/schema-NNNN.sql: a project in mid-flight as each schema version kept it.

Each is made by the code of the commit that its version comes from, taken out of this repository's history. A
version that no commit ended with is the one before it with its migration applied.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
MIGRATIONS = ROOT / "src" / "sf" / "store" / "migrations"
MADE_BY = {1: "719efcb", 2: "e8e72e8", 4: "17d8bc4", 7: "a895d85"}
"""The commit whose code makes each version."""


def dump(database: Path) -> str:
    """A database as text."""
    connection = sqlite3.connect(database)
    text = "\n".join(connection.iterdump()) + "\n"
    connection.close()
    return text


def made(version: int, folder: Path) -> str:
    """The project, made by the code of a version."""
    archive = subprocess.run(
        ["git", "archive", MADE_BY[version], "src"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    database = folder / "sf.db"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "golden_project.py"), str(database)],
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        check=True,
    )
    return dump(database)


def upgraded(text: str, version: int, folder: Path) -> str:
    """A database of the version before, with one migration applied."""
    (file,) = (found for found in MIGRATIONS.glob(f"{version:04d}_*.sql") if "." not in found.stem)
    database = folder / "sf.db"
    connection = sqlite3.connect(database)
    connection.executescript(text)
    connection.executescript(file.read_text(encoding="utf-8"))
    description = file.stem.partition("_")[2]
    connection.execute("INSERT INTO schema_migrations VALUES (?, 1767225600000, ?)", (version, description))
    connection.commit()
    connection.close()
    return dump(database)


def main() -> None:
    """Write every version."""
    GOLDEN.mkdir(exist_ok=True)
    text = ""
    for version in sorted(int(file.name[:4]) for file in MIGRATIONS.glob("*.sql") if "." not in file.stem):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            text = made(version, place) if version in MADE_BY else upgraded(text, version, place)
        (GOLDEN / f"schema-{version:04d}.sql").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
