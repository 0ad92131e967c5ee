"""The history of a branch as far as sf wrote it: commits found by the units that their messages name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sf.domain.reverting import Authored, has_subject, named_units, naming_pattern
from sf.workspaces._transfer import present
from sf.workspaces.owned import OwnedRepository

_FIELDS = 5


class History:
    """What a commit of the integration branch reaches; the commit is in sf's own repository."""

    def __init__(self, owned: OwnedRepository, head: str) -> None:
        self._owned = owned
        self.head = head

    async def naming(self, unit_id: str) -> list[Authored]:
        """Return the commits that name a unit or something below it, newest first."""
        return await self._log("--extended-regexp", f"--grep={naming_pattern(unit_id)}", self.head)

    async def with_subject(self, subject: str, since: str | None) -> list[Authored]:
        """Return the commits after `since` that carry a subject and name no unit, newest first."""
        without = [f"^{since}"] if since and await self.reaches(since) else []
        found = await self._log("--fixed-strings", f"--grep={subject}", self.head, *without)
        return [commit for commit in found if has_subject(commit, subject) and not commit.units]

    async def brought_in(self, merge: Authored) -> list[Authored]:
        """Return what a merge added to its first parent, itself left out."""
        found = await self._log(merge.id, f"^{merge.parents[0]}")
        return [commit for commit in found if commit.id != merge.id]

    async def touching(self, paths: Collection[str], since: str, most: int = 20) -> list[Authored]:
        """Return the commits after `since` that changed one of the paths, newest first."""
        return await self._log(
            f"--max-count={most}", "--no-merges", self.head, f"^{since}", paths=sorted(paths)
        )

    async def reaches(self, commit: str) -> bool:
        """Return whether the head reaches a commit, which sf's own repository need not know."""
        if not await present(self._owned.git, self._owned.git_dir, [commit]):
            return False
        return await self._owned.is_ancestor(commit, self.head)

    async def find(self, commit: str) -> Authored | None:
        """Return a commit that the head reaches; None for any other."""
        return (await self._log("--max-count=1", commit))[0] if await self.reaches(commit) else None

    async def subject_of(self, commit: str) -> str | None:
        """Return the subject of a commit that may be gone for good: None then."""
        if not await present(self._owned.git, self._owned.git_dir, [commit]):
            return None
        found = await self._log("--max-count=1", commit)
        return found[0].subject

    async def in_order(self, commits: Sequence[Authored]) -> list[Authored]:
        """Return the commits newest first, children before parents."""
        output = await self._owned.git.run(
            "rev-list", "--topo-order", self.head, "--", git_dir=self._owned.git_dir, timeout=300.0
        )
        place = {name: number for number, name in enumerate(output.text().split())}
        return sorted(commits, key=lambda commit: place[commit.id])

    async def _log(self, *which: str, paths: Sequence[str] = ()) -> list[Authored]:
        output = await self._owned.git.run(
            *("log", "-z", "--topo-order", "--no-notes", "--no-mailmap", "--no-show-signature"),
            *("--format=%H%x00%P%x00%ct%x00%s%x00%B", *which, "--", *paths),
            git_dir=self._owned.git_dir,
            timeout=300.0,
        )
        fields = output.stdout.decode("utf-8", "replace").split("\0")
        records = (fields[at : at + _FIELDS] for at in range(0, len(fields) - _FIELDS + 1, _FIELDS))
        return [
            Authored(name, tuple(parents.split()), subject, int(at), named_units(body))
            for name, parents, at, subject, body in records
        ]
