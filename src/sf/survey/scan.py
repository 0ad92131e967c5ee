"""One scan of a repository: which files to look into, and everything that follows from what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from sf.domain.past import PastCommit
from sf.survey import languages
from sf.survey.commands import commands_of
from sf.survey.conventions import conventions_of
from sf.survey.crew import Examined, Told, examine
from sf.survey.dependencies import dependencies_of
from sf.survey.entrypoints import entry_points
from sf.survey.facts import Facts
from sf.survey.findings import Findings
from sf.survey.history import past_of
from sf.survey.languages import LeftOut, shares
from sf.survey.linkage import linkage_of
from sf.survey.structure import MANIFESTS, name_in, structure_of
from sf.survey.tree import Tree
from sf.survey.wording import plain, shown

SECONDS = 120.0
"""How long a scan may look into files."""


async def look(tree: Tree, told: Told, *, seconds: float = SECONDS, workers: int = 0) -> Examined:
    """Look into every tracked file whose name or first line may tell a language."""
    headers = languages.headers_of(tree.files)
    wanted = []
    out: dict[str, Facts] = {}
    for name in tree.files:
        reason = languages.unwanted_name(name)
        language = languages.of_name(name, headers)
        if reason:
            out[name] = Facts(language, left_out=reason)
        elif language or not PurePosixPath(name).suffix:
            wanted.append((name, language))
    examined = await examine(tree.root, wanted, seconds=seconds, told=told, workers=workers)
    return Examined({**out, **examined.facts}, examined.trouble)


def conclude(
    tree: Tree,
    examined: Examined,
    commits: Sequence[PastCommit],
    *,
    head: str = "",
    complete: bool = True,
    now: int | None = None,
    trouble: Sequence[str] = (),
) -> Findings:
    """Everything that follows from the files and the commits."""
    # In the order of names, whichever worker answered first: the same tree gives the same findings.
    facts = {name: examined.facts[name] for name in tree.files if name in examined.facts}
    read = {name: found for name, found in facts.items() if found.left_out is None and found.language}
    past = past_of(commits, tree.present, complete=complete, now=now)
    broken = [name for name, found in read.items() if found.outline.broken]
    return Findings(
        project=_name(tree),
        head=head,
        files=len(tree.files),
        definitions=sum(len(found.outline.definitions) for found in read.values()),
        languages=shares((found.language, found.lines) for found in read.values()),
        structure=structure_of(tree, read),
        entry_points=entry_points(tree, read),
        dependencies=dependencies_of(tree),
        commands=commands_of(tree),
        conventions=conventions_of(tree, past),
        linkage=linkage_of(tree, read),
        past=past,
        left_out=_left_out(facts),
        broken=len(broken),
        broken_files=tuple(shown(name) for name in broken[:10]),
        trouble=tuple(plain(line, 200) for line in (*trouble, examined.trouble) if line),
    )


def _name(tree: Tree) -> str:
    """What the manifest at the top calls the project, else the name of its folder."""
    said = (name_in(tree, manifest) for manifest in MANIFESTS if manifest in tree.present)
    return next(filter(None, said), "") or plain(tree.root.name, 80) or "the project"


def _left_out(facts: Mapping[str, Facts]) -> dict[LeftOut, int]:
    counts = Counter(found.left_out for found in facts.values() if found.left_out)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
