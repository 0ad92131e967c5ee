"""Reverting a unit on real git: merges, ghosts after a rebase or a squash, conflicts; nothing of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sf.app.reconciling import Survey, survey_unit
from sf.domain import outcomes as o
from sf.domain.reverting import revert_message
from sf.errors import WrongState
from sf.harness.workshop import Workshop
from sf.paths import Project
from sf.store import records
from sf.store.database import Database
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.refusals import RevertConflict
from sf.workspaces.repository import UserRepository
from sf.workspaces.reversal import Reversal, reverse
from tests.integration.test_workspaces_opening import make_user_repository, user_git, write
from tests.support.ground import Ground
from tests.support.samples import milestone_plan, piece, task

M, S1, S2 = "milestone/m1", "slice/m1/s1", "slice/m1/s2"
A, B, C = "task/m1/s1/t1", "task/m1/s1/t2", "task/m1/s2/t1"
TITLES = {A: "Add a", B: "Add b", C: "Add c", S1: "One", S2: "Two"}


class Site:
    """A project whose units are all done, and a repository into which their work is merged as by sf."""

    def __init__(self, root: Path, ground: Ground, database: Database, workshop: Workshop) -> None:
        self.root = root
        self.ground = ground
        self.workshop = workshop
        self.read = database.read
        self.first = self.git("rev-parse", "main")

    def git(self, *args: str) -> str:
        return user_git(self.root, *args)

    def commit(self, message: str, **files: str) -> str:
        write(self.root, {name.replace("_", "."): content for name, content in files.items()})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def work(self, unit_id: str, **files: str) -> str:
        made = self.commit(f"{TITLES[unit_id]}\n\nSf-Unit: {unit_id}\nSf-Attempt: 1", **files)
        self.record(unit_id, made)
        return made

    def branch(self, name: str = "work") -> None:
        self.git("checkout", "-q", "-b", name, "main")

    def merge(self, unit_id: str, name: str = "work") -> str:
        self.git("checkout", "-q", "main")
        title = f"Merge {unit_id}: {TITLES[unit_id]}"
        self.git("merge", "-q", "--no-ff", "-m", f"{title}\n\nSf-Unit: {unit_id}\nSf-Attempt: 3", name)
        self.git("branch", "-q", "-D", name)
        made = self.git("rev-parse", "main")
        self.record(unit_id, made)
        return made

    def both_slices(self) -> None:
        """Slice one with two tasks, a commit of the user's, slice two."""
        self.branch()
        self.work(A, a_txt="a\n")
        self.work(B, b_txt="b\n")
        self.merge(S1)
        self.commit("mine", mine_txt="mine\n")
        self.branch()
        self.work(C, c_txt="c\n")
        self.merge(S2)

    def record(self, unit_id: str, commit: str) -> None:
        self.ground.write(
            lambda tx: records.add_evidence(
                tx, unit_id, "run", "merge", "merged into main", self.ground.now, commit=commit
            )
        )

    async def survey(self, unit_id: str) -> Survey:
        return await survey_unit(self.workshop, self.read, unit_id)

    async def reverse(self, found: Survey) -> Reversal:
        return await reverse(
            self.workshop.owned, found.head, found.steps, lambda step: revert_message(step, found.unit_id)
        )

    async def revert(self, unit_id: str) -> Survey:
        """Survey, reverse and land."""
        found = await self.survey(unit_id)
        made = await self.reverse(found)
        await self.workshop.user.land("main", found.head, made.tip, self.workshop.owned)
        return found

    def files(self) -> set[str]:
        assert self.git("status", "--porcelain") == ""
        return {name for name in self.git("ls-files").split() if name.endswith(".txt")}

    def subjects(self, found: Survey) -> list[str]:
        return [step.subject for step in found.steps]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    root = make_user_repository(tmp_path / "project")
    ground = Ground(tmp_path / "sf.db")
    ground.plant()
    ground.run(M, o.Done("researched"))
    plan = milestone_plan(piece("One", task("Add a"), task("Add b", "Add a")), piece("Two", task("Add c")))
    ground.run(M, o.Planned(plan))
    ground.finish()
    git = Git()
    user = await UserRepository.open(root, tmp_path / "facade", git)
    owned = await OwnedRepository.open(tmp_path / "owned.git", user, git)
    database = Database(ground.place)
    project = Project(root=root, home=tmp_path / "home")
    workshop = Workshop(project, database, user, owned, ground.clock, "branch-per-slice")
    yield Site(root, ground, database, workshop)
    database.close()
    ground.close()


async def test_a_slice_is_reverted_as_its_merge(site: Site) -> None:
    site.both_slices()
    found = await site.revert(S1)
    assert site.subjects(found) == [f"Merge {S1}: One"]
    assert found.steps[0].is_merge and found.steps[0].brought == 2
    assert "is a merge" in found.warnings[0]
    assert site.files() == {"mine.txt", "c.txt"}
    assert site.git("log", "-1", "--format=%s") == f'Revert "Merge {S1}: One"'
    assert f"This reverts commit {found.steps[0].commit}, reversing" in site.git("log", "-1", "--format=%B")
    site.git("fsck", "--strict")


async def test_a_task_is_reverted_as_its_commit(site: Site) -> None:
    site.both_slices()
    found = await site.revert(A)
    assert site.subjects(found) == ["Add a"] and not found.warnings
    assert site.files() == {"b.txt", "mine.txt", "c.txt"}


async def test_a_milestone_is_reverted_newest_first_and_the_users_commit_stays(site: Site) -> None:
    site.both_slices()
    before = site.git("rev-parse", "main")
    found = await site.revert(M)
    assert site.subjects(found) == [f"Merge {S2}: Two", f"Merge {S1}: One"]
    assert site.files() == {"mine.txt"}
    assert site.git("rev-list", "--count", f"{before}..main") == "2"
    assert site.git("rev-parse", "main~2") == before


async def test_what_git_reverts_by_itself_is_the_same_tree(site: Site) -> None:
    site.both_slices()
    found = await site.survey(S1)
    made = await site.reverse(found)
    site.git("revert", "--no-edit", "-m", "1", found.steps[0].commit)
    assert await site.workshop.owned.tree_of(made.tip) == site.git("rev-parse", "HEAD^{tree}")


async def test_a_rebase_that_drops_merges_leaves_ghosts_which_are_found_by_name(site: Site) -> None:
    site.both_slices()
    site.git("checkout", "-q", "-b", "elsewhere", site.first)
    site.commit("before it all", early_txt="early\n")
    site.git("rebase", "-q", "elsewhere", "main")
    found = await site.revert(S1)
    assert site.subjects(found) == ["Add b", "Add a"]
    ghosts = {ghost.unit_id: ghost for ghost in found.ghosts}
    assert set(ghosts) == {S1, A, B}
    assert ghosts[A].how == ghosts[B].how == "name"
    assert ghosts[A].found == (found.steps[1].commit,)
    assert ghosts[S1].found == tuple(step.commit for step in found.steps), "its tasks stand for the merge"
    assert site.files() == {"early.txt", "mine.txt", "c.txt"}


async def test_a_rebase_that_keeps_merges_is_reverted_by_the_new_merge(site: Site) -> None:
    site.both_slices()
    site.git("checkout", "-q", "-b", "elsewhere", site.first)
    site.commit("before it all", early_txt="early\n")
    site.git("rebase", "-q", "--rebase-merges", "elsewhere", "main")
    found = await site.revert(S1)
    assert site.subjects(found) == [f"Merge {S1}: One"]
    assert {ghost.how for ghost in found.ghosts} == {"name"}
    assert site.files() == {"early.txt", "mine.txt", "c.txt"}


async def test_a_squash_of_one_slice_is_one_commit(site: Site) -> None:
    site.branch()
    site.work(A, a_txt="a\n")
    site.work(B, b_txt="b\n")
    site.git("checkout", "-q", "main")
    site.git("merge", "-q", "--squash", "work")
    site.git("commit", "-q", "--no-edit")
    site.record(S1, "0" * 39 + "1")
    found = await site.revert(S1)
    assert len(found.steps) == 1 and not found.steps[0].is_merge
    assert site.files() == set()
    ghosts = {ghost.unit_id: ghost.how for ghost in found.ghosts}
    assert ghosts == {S1: "name", A: "name", B: "name"}


async def test_a_squash_of_two_slices_can_only_be_reverted_together(site: Site) -> None:
    site.both_slices()
    site.git("checkout", "-q", "-b", "squashed", site.first)
    site.git("merge", "-q", "--squash", "main")
    site.git("commit", "-q", "--no-edit")
    site.git("checkout", "-q", "-B", "main", "squashed")
    with pytest.raises(WrongState, match=r"together with .*slice/m1/s2") as refused:
        await site.survey(S1)
    assert "git revert" in refused.value.hint
    await site.revert(M)
    assert site.files() == set()


async def test_a_commit_with_another_body_is_found_by_its_subject_if_only_one_has_it(site: Site) -> None:
    site.both_slices()
    site.git("checkout", "-q", "-b", "again", site.first)
    site.commit("Add a (#7)", a_txt="a\n")
    site.git("checkout", "-q", "-B", "main", "again")
    found = await site.survey(A)
    assert site.subjects(found) == ["Add a (#7)"]
    assert found.steps[0].by_subject and any("subject alone" in text for text in found.warnings)
    assert found.ghosts[0].how == "subject"
    site.commit("Add a", other_txt="by someone else\n")
    with pytest.raises(WrongState, match="are gone from main"):
        await site.survey(A)


async def test_a_squash_in_the_users_own_words_is_not_guessed_at(site: Site) -> None:
    site.both_slices()
    site.git("reset", "-q", "--soft", site.first)
    site.git("commit", "-q", "-m", "everything")
    with pytest.raises(WrongState, match=r"are gone from main.*Merge slice/m1/s1: One"):
        await site.survey(S1)


async def test_a_milestone_of_which_a_part_is_hidden_is_not_half_undone(site: Site) -> None:
    site.both_slices()
    site.git("checkout", "-q", "-b", "hidden", site.first)
    site.commit("in my own words", a_txt="a\n", b_txt="b\n")
    site.git("branch", "-q", "-M", "hidden", "main")
    site.branch()
    site.work(C, c_txt="c\n")
    site.merge(S2)
    with pytest.raises(WrongState, match="of slice/m1/s1 is gone from main") as refused:
        await site.survey(M)
    assert "each part" in refused.value.hint
    found = await site.revert(S2)
    assert len(found.ghosts) == 2, "an earlier landing of the same slice is on record too"
    assert site.files() == {"a.txt", "b.txt"}


async def test_a_landing_in_one_commit_stands_for_its_tasks(site: Site) -> None:
    site.branch()
    site.work(A, a_txt="a\n")
    site.git("checkout", "-q", "main")
    site.git("merge", "-q", "--squash", "work")
    site.record(S1, site.commit(f"Merge {S1}: One\n\nSf-Unit: {S1}"))
    site.commit("Add a", other_txt="the same words by someone else\n")
    found = await site.revert(S1)
    assert site.subjects(found) == [f"Merge {S1}: One"]
    assert site.files() == {"other.txt"}


async def test_a_conflict_names_paths_and_later_commits_and_moves_nothing(site: Site) -> None:
    site.both_slices()
    later = site.commit("change a", a_txt="a, but better\n")
    found = await site.survey(S1)
    with pytest.raises(RevertConflict, match=r"a\.txt changed again in .* change a") as refused:
        await site.reverse(found)
    assert refused.value.paths == ("a.txt",) and refused.value.later == (later,)
    assert "git revert -m 1" in refused.value.hint
    assert site.git("rev-parse", "main") == later
    assert site.files() == {"a.txt", "b.txt", "c.txt", "mine.txt"}


async def test_lines_elsewhere_in_the_same_file_are_no_conflict(site: Site) -> None:
    lines = [f"line {number}\n" for number in range(30)]
    site.commit("the file", long_txt="".join(lines))
    site.branch()
    site.work(C, long_txt="".join(["top\n", *lines]))
    site.merge(S2)
    site.commit("mine", long_txt="".join(["top\n", *lines, "bottom\n"]))
    await site.revert(S2)
    assert (site.root / "long.txt").read_text() == "".join([*lines, "bottom\n"])


async def test_a_merge_that_also_brought_a_commit_of_the_users_is_taken_apart(site: Site) -> None:
    site.branch()
    site.work(A, a_txt="a\n")
    site.commit("mine on its branch", own_txt="mine\n")
    site.merge(S1)
    found = await site.revert(S1)
    assert site.subjects(found) == ["Add a"]
    assert site.files() == {"own.txt"}


async def test_a_task_that_resolved_a_merge_with_others_is_not_reverted_alone(site: Site) -> None:
    site.branch()
    site.work(A, both_txt="a\n")
    site.git("checkout", "-q", "main")
    site.commit("mine", both_txt="mine\n")
    site.git("checkout", "-q", "work")
    user_git(site.root, "merge", "-q", "--no-ff", "--no-commit", "main", check=False)
    site.work(B, both_txt="a and mine\n")
    site.merge(S1)
    with pytest.raises(WrongState, match="resolved a merge with the work of others") as refused:
        await site.survey(B)
    assert f"sf revert {S1}" in refused.value.hint
    found = await site.revert(S1)
    assert site.subjects(found) == [f"Merge {S1}: One"]
    assert (site.root / "both.txt").read_text() == "mine\n"


async def test_what_the_user_reverted_by_hand_needs_no_commit(site: Site) -> None:
    site.both_slices()
    merge = (await site.survey(S1)).steps[0].commit
    site.git("revert", "--no-edit", "-m", "1", merge)
    found = await site.survey(S1)
    made = await site.reverse(found)
    assert made.tip == found.head and [item.commit for item in made.made] == [None]


async def test_somebody_elses_commit_on_record_is_not_taken_for_the_units(site: Site) -> None:
    site.record(S1, site.commit("mine", mine_txt="mine\n"))
    with pytest.raises(WrongState, match="has no commit on main"):
        await site.survey(S1)


async def test_the_first_commit_of_a_repository_can_be_undone(site: Site) -> None:
    site.git("checkout", "-q", "--orphan", "fresh")
    site.git("rm", "-rfq", ".")
    site.work(A, a_txt="a\n")
    site.commit("mine", mine_txt="mine\n")
    site.git("branch", "-q", "-M", "fresh", "main")
    await site.revert(A)
    assert site.files() == {"mine.txt"}


async def test_a_description_that_names_another_unit_makes_the_commit_nobodys_alone(site: Site) -> None:
    site.branch()
    site.record(A, site.commit(f"Add a\n\nSf-Unit: {C}\n\nSf-Unit: {A}", a_txt="a\n"))
    site.merge(S1)
    with pytest.raises(WrongState, match="together with"):
        await site.survey(A)
    with pytest.raises(WrongState, match="has no commit"):
        await site.survey(C)


async def test_what_bears_the_name_and_is_not_on_record_is_left_alone(site: Site) -> None:
    site.commit(f"Theirs\n\nSf-Unit: {A}", theirs_txt="theirs\n")
    site.branch()
    site.work(A, a_txt="a\n")
    site.merge(S1)
    await site.revert(S1)
    assert "theirs.txt" in site.files() and "a.txt" not in site.files()


async def test_on_a_rewritten_branch_names_decide(site: Site) -> None:
    """A commit that was never on record of its own, such as a slice's mends, is found then too."""
    site.branch()
    site.work(A, a_txt="a\n")
    site.commit(f"One: what gates and review asked for\n\nSf-Unit: {S1}", mended_txt="mended\n")
    site.merge(S1)
    site.git("checkout", "-q", "-b", "rewritten", site.first)
    for commit in site.git("rev-list", "--reverse", "--no-merges", f"{site.first}..main").split():
        site.git("cherry-pick", "--allow-empty", commit)
        site.git("commit", "-q", "--amend", "--no-edit", "--reset-author", "--date=2001-01-01T00:00:00Z")
    site.git("branch", "-q", "-M", "rewritten", "main")
    await site.revert(S1)
    assert not {"a.txt", "mended.txt"} & site.files()
