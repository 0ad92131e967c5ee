"""A unit's own work on a branch that was rewritten: where it moved what is in conflict, it is not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sf.workspaces.owned import MergeResult
from sf.workspaces.replay import Replay
from tests.integration.test_workspaces_opening import Project

Files = dict[str, str | None]


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


def long(**lines: str) -> str:
    """A file of 20 lines, some of them other ones; markers in it leave it much the same."""
    plain = "so that it is known again where it goes by another name"
    return "".join(f"{lines.get(f'line{number}', f'{number} {plain}')}\n" for number in range(20))


async def replayed(
    project: Project, began: Files, *, unit: Files, taken: Files, mended: Files, after: Files, head: Files
) -> MergeResult:
    """What comes of a unit that took in a commit, mended that and went on; of the commit, `head` is left."""
    owned = project.owned
    base = await project.next_commit(began)
    first = await project.next_commit(unit, base)
    took = await project.next_commit(taken, base)
    result = await owned.tree_of(await project.next_commit(mended, first))
    joint = await owned.commit_tree(result, [first, took], "mended")
    tip = await project.next_commit(after, joint)
    is_replay, merged = await Replay(owned, base).joined(await project.next_commit(head, base), tip)
    assert is_replay
    return merged


async def content(project: Project, merged: MergeResult, path: str) -> str | None:
    assert merged.tree is not None
    shown = await project.owned.show_file(merged.tree, path, 1 << 20)
    return None if shown is None else shown.decode()


async def test_a_file_that_was_in_conflict_and_is_renamed_later_keeps_the_units_lines(
    project: Project,
) -> None:
    """The later move was made of the head's file, in which the unit's lines were not."""
    both = long(line5="user and agent")
    merged = await replayed(
        project,
        {"old.txt": long()},
        unit={"old.txt": long(line5="agent")},
        taken={"old.txt": long(line5="user"), "secret.txt": "password\n"},
        mended={"old.txt": both, "secret.txt": "password\n"},
        after={"old.txt": None, "new.txt": both},
        head={"old.txt": long(line5="user")},
    )
    assert await content(project, merged, "new.txt") == both
    assert await content(project, merged, "secret.txt") is None


async def test_a_file_that_was_in_conflict_and_becomes_a_folder_keeps_what_is_in_it(project: Project) -> None:
    """The file was put back, and the folder was gone with all that the unit had made in it."""
    merged = await replayed(
        project,
        {"a": "0\n"},
        unit={"a": "agent\n"},
        taken={"a": "user\n", "secret.txt": "password\n"},
        mended={"a": "user\n", "secret.txt": "password\n"},
        after={"a": None, "a/work.txt": "work\n"},
        head={"a": "user\n"},
    )
    assert await content(project, merged, "a/work.txt") == "work\n"
    assert await content(project, merged, "secret.txt") is None


async def test_a_file_that_was_dropped_does_not_come_back_by_the_name_that_the_unit_gave_it(
    project: Project,
) -> None:
    """Of a file that is deleted here and renamed there, git names the new path alone."""
    merged = await replayed(
        project,
        {"z": "z\n"},
        unit={"work.txt": "work\n"},
        taken={"secret.txt": long(), "big.txt": "big\n"},
        mended={"secret.txt": long(), "big.txt": "big\n", "fix.txt": "fix\n"},
        after={"secret.txt": None, "settings.txt": long()},
        head={"big.txt": "big\n"},
    )
    assert [item.path for item in merged.conflicts] == ["settings.txt"]


async def test_a_line_that_was_dropped_does_not_come_back_in_a_file_that_the_unit_had_renamed(
    project: Project,
) -> None:
    """The conflict was at its new path, where the head had nothing to set against it."""
    merged = await replayed(
        project,
        {"old.txt": long()},
        unit={"old.txt": None, "new.txt": long(line2="agent")},
        taken={"old.txt": long(line10="user", line15="password")},
        mended={"new.txt": long(line2="agent", line10="fixed", line15="password")},
        after={"work.txt": "work\n"},
        head={"old.txt": long(line10="user, amended")},
    )
    assert [item.path for item in merged.conflicts] == ["new.txt"]
    shown = await project.owned.show_file(str(merged.laid_out), "new.txt", 1 << 20)
    assert shown is not None and b"amended" in shown and b"password" not in shown


async def test_a_file_that_an_amended_commit_has_as_well_goes_where_the_unit_has_moved_it(
    project: Project,
) -> None:
    """Of the commit without the unit's work it was no part, so that the unit had moved it was none of its."""
    both = long(line5="user and agent")
    merged = await replayed(
        project,
        {"old.txt": long()},
        unit={"old.txt": long(line5="agent"), "more.txt": "more\n"},
        taken={"old.txt": long(line5="user"), "more.txt": "more\n", "secret.txt": "password\n"},
        mended={
            **{"old.txt": None, "new.txt": both},
            **{"more.txt": None, "lib/more.txt": "more\n", "secret.txt": "password\n"},
        },
        after={"work.txt": "work\n"},
        head={"old.txt": long(line5="user"), "more.txt": "more\n"},
    )
    assert await content(project, merged, "new.txt") == both
    assert await content(project, merged, "lib/more.txt") == "more\n"
    assert await content(project, merged, "more.txt") is None


@pytest.mark.parametrize("is_renamed", [True, False])
async def test_a_line_that_was_dropped_does_not_come_back_by_a_union_beside_a_conflict(
    project: Project, is_renamed: bool
) -> None:
    """The file is nowhere in conflict: it was merged at once only because another one was."""
    mended: Files = {"new.txt": long(line5="user and agent")} if is_renamed else {}
    merged = await replayed(
        project,
        {".gitattributes": "log.txt merge=union\n", "old.txt": long(), "log.txt": "# log\n"},
        unit={"old.txt": long(line5="agent") if is_renamed else None, "log.txt": "# log\nthe unit's\n"},
        taken={"old.txt": long(line5="user"), "log.txt": "# log\npassword\n"},
        mended={"old.txt": None, **mended, "log.txt": "# log\npassword\nthe unit's\n"},
        after={"work.txt": "work\n"},
        head={"old.txt": long(line5="user")},
    )
    assert await content(project, merged, "log.txt") == "# log\nthe unit's\n"
    assert await content(project, merged, "old.txt") is None


async def test_the_longer_markers_of_a_file_that_each_side_renamed_otherwise_are_markers(
    project: Project,
) -> None:
    """Git makes them one longer there: left as they were, they landed."""
    base = await project.next_commit({"old.txt": long()})
    ours = await project.next_commit({"old.txt": None, "mine.txt": long(line5="user")}, base)
    theirs = await project.next_commit({"old.txt": None, "new.txt": long(line5="agent")}, base)
    merged = await project.owned.merge_trees(ours, theirs)
    marked = await project.owned.diff_stat(ours, str(merged.laid_out))
    for path in ("mine.txt", "new.txt"):
        left = [change for change in marked if change.path == path]
        assert await project.owned.have_markers(left, merged.label)
