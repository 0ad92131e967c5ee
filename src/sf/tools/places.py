"""Which of a site's roots a path belongs to."""

from __future__ import annotations

from pathlib import Path

from sf import containment
from sf.errors import SymlinkEscape
from sf.tools.base import Site


def readable(site: Site, path: str) -> tuple[Path, Path]:
    """The root that contains the path, and the path resolved in it. Raises SymlinkEscape for none."""
    roots = [site.root, *site.reading]
    for root in roots:
        try:
            return root, containment.resolve_inside(root, path)
        except SymlinkEscape:
            continue
    raise SymlinkEscape(f"{path!r} is outside the worktree")


def writable(site: Site, path: str) -> Path:
    """The path inside the worktree. Raises SymlinkEscape."""
    return containment.resolve_inside(site.root, path)
