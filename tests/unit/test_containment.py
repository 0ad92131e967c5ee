"""Paths stay below their root, whatever links, loops and special files are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.containment import open_inside, read_inside, resolve_inside, sanitize, write_inside
from sf.errors import SymlinkEscape, WorkspaceFailed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return folder


@pytest.mark.conforms("C-21")
@given(st.text(max_size=40))
def test_a_sanitized_name_is_one_safe_segment(identifier: str) -> None:
    name = sanitize(identifier)
    assert name not in ("", ".", "..")
    assert len(Path("/x", name).parts) == 3
    assert all(character.isascii() and (character.isalnum() or character in "._-") for character in name)


@pytest.mark.conforms("C-21")
def test_unsafe_characters_become_underscores() -> None:
    assert sanitize("task/m1/s2\0é") == "task_m1_s2__"
    assert sanitize("a.b-c_D9") == "a.b-c_D9"


@pytest.mark.conforms("C-22")
@pytest.mark.parametrize("path", ["../outside/secret", "a/../../outside", "/etc/passwd", "nul\0byte", ".."])
def test_a_path_that_leaves_the_root_is_refused(root: Path, path: str) -> None:
    with pytest.raises(SymlinkEscape):
        resolve_inside(root, path)


@pytest.mark.conforms("C-22")
@pytest.mark.parametrize("target", ["../outside", "/etc", "inner/../../outside", "/proc/self/root/etc"])
def test_a_link_that_leaves_the_root_is_refused(root: Path, target: str) -> None:
    (root / "inner").mkdir()
    (root / "link").symlink_to(target)
    (root / "again").symlink_to("link")
    for path in ("link/secret", "again/new/file", root / "link" / "secret"):
        with pytest.raises(SymlinkEscape):
            resolve_inside(root, path)
        with pytest.raises(SymlinkEscape):
            write_inside(root, path, b"x")
    assert not (root.parent / "outside" / "new").exists()


@pytest.mark.conforms("C-22")
def test_a_loop_of_links_ends(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a/x")
    with pytest.raises(SymlinkEscape):
        resolve_inside(root, "a")


@pytest.mark.conforms("C-22")
def test_a_prefix_of_the_name_is_not_the_root(root: Path) -> None:
    sibling = root.with_name("root-evil")
    sibling.mkdir()
    with pytest.raises(SymlinkEscape):
        resolve_inside(root, sibling / "file")


@pytest.mark.conforms("C-22")
def test_links_inside_are_followed_and_missing_tails_allowed(root: Path) -> None:
    (root / "real").mkdir()
    (root / "alias").symlink_to("real")
    (root / "absolute").symlink_to(root / "real")
    assert resolve_inside(root, "alias/new/file") == root / "real/new/file"
    assert resolve_inside(root, "absolute/x") == root / "real/x"
    assert resolve_inside(root, root / "alias") == root / "real"
    assert resolve_inside(root, ".") == root


def test_a_root_reached_through_a_link_is_the_same_root(root: Path) -> None:
    alias = root.with_name("alias")
    alias.symlink_to(root)
    (root / "file").write_text("here")
    assert read_inside(alias, alias / "file", 10) == b"here"
    assert read_inside(alias, root / "file", 2) == b"he"


def test_write_makes_parents_replaces_whole_and_keeps_the_mode(root: Path) -> None:
    write_inside(root, "a/b/script", b"one")
    (root / "a/b/script").chmod(0o755)
    write_inside(root, "a/b/script", b"two")
    assert (root / "a/b/script").read_bytes() == b"two"
    assert (root / "a/b/script").stat().st_mode & 0o777 == 0o755
    assert [file.name for file in (root / "a/b").iterdir()] == ["script"]


def test_a_write_through_an_inside_link_reaches_its_target(root: Path) -> None:
    (root / "target").write_text("old")
    (root / "link").symlink_to("target")
    write_inside(root, "link", b"new")
    assert (root / "target").read_text() == "new"
    assert (root / "link").is_symlink()


def test_special_files_and_directories_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    for name in ("fifo", "folder", "."):
        with pytest.raises(WorkspaceFailed):
            read_inside(root, name, 10)
        with pytest.raises(WorkspaceFailed):
            write_inside(root, name, b"x")
    with pytest.raises(WorkspaceFailed):
        open_inside(root, "fifo", os.O_WRONLY)


def test_a_file_where_a_directory_is_needed_is_a_clear_failure(root: Path) -> None:
    (root / "file").write_text("x")
    with pytest.raises(WorkspaceFailed):
        write_inside(root, "file/below", b"x")
    with pytest.raises(WorkspaceFailed):
        read_inside(root, "absent", 10)


def test_truncation_happens_only_on_a_regular_file(root: Path) -> None:
    (root / "file").write_text("content")
    descriptor = open_inside(root, "file", os.O_WRONLY | os.O_TRUNC)
    os.close(descriptor)
    assert (root / "file").read_bytes() == b""
