"""The lasting name of a project: everything that sf keeps of it lies under that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sf.paths import Project, identify


def _project(root: Path) -> Project:
    (root / ".sf").mkdir(parents=True)
    return Project(root=root, home=root.parent / "home")


def test_a_name_stays_and_moves_with_its_folder(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    identify(project)
    key = project.key
    identify(project)
    assert project.key == key
    project.root.rename(tmp_path / "two")
    moved = Project(root=tmp_path / "two", home=project.home)
    identify(moved)
    assert moved.key == key


def test_a_name_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    """Another name would mean other worktrees and another repository; what was begun would lie unseen."""
    project = _project(tmp_path / "one")
    (project.dot / "project-id").mkdir()
    with pytest.raises(IsADirectoryError):
        identify(project)
    assert list((project.dot / "project-id").iterdir()) == []
