"""A small git repository made by a test: files, commits with authors and dates, a tree as a scan sees it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sf.survey.facts import Facts
from sf.survey.languages import of_name
from sf.survey.looking import look_into
from sf.survey.tree import Tree

MORNING = 1_750_000_000
DAY = 86_400


class Repository:
    """A repository with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.now = MORNING
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, author: str = "Ann Example") -> bytes:
        """Plain git, at the repository's own time."""
        date = f"{self.now} +0000"
        environment = {
            **os.environ,
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": "ann@example.invalid",
            "GIT_COMMITTER_NAME": author,
            "GIT_COMMITTER_EMAIL": "ann@example.invalid",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, capture_output=True, check=True
        )
        return done.stdout

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files without committing them."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(
        self,
        files: Mapping[str, str | bytes],
        subject: str = "change",
        author: str = "Ann Example",
        days: int = 1,
    ) -> str:
        """Write files and commit everything, some days after the last time."""
        self.now += days * DAY
        self.write(files)
        self.git("add", "-A", "--", ".", ":!.sf")
        self.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject, author=author)
        return self.git("rev-parse", "HEAD").decode().strip()


def tree_of(folder: Path, files: Mapping[str, str | bytes]) -> Tree:
    """Files in a folder, as if git tracked them all."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Tree.of(folder, files)


def facts_of(tree: Tree) -> dict[str, Facts]:
    """What every file of a tree tells, looked into right here."""
    return {name: look_into(tree.root, name, of_name(name)) for name in tree.files}
