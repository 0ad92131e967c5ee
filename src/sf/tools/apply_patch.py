"""apply_patch: a unified diff over one or more files, all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sf import containment
from sf.tools.base import Answer, Site, Tool, failure, ok
from sf.tools.patches import BadPatch, FilePatch, parse
from sf.tools.places import writable

_LIMIT = 4_000_000


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What apply_patch takes."""

    patch: str


class ApplyPatch(Tool[Arguments]):
    """Apply a unified diff: every hunk of every file must fit before anything is written."""

    name = "apply_patch"
    description = "Apply a unified diff (---/+++/@@). Nothing is written unless every hunk fits."
    needs = "write"
    approval = "fs:write"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """Every file that the patch names."""
        try:
            return tuple(dict.fromkeys(patch.path for patch in parse(arguments.patch)))
        except BadPatch:
            return ()

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Compute every file first, then write."""
        results: dict[Path, bytes | None] = {}
        try:
            for patch in parse(arguments.patch):
                path = writable(site, patch.path)
                before = results[path] if path in results else _content(site, path)
                results[path] = _patched(patch, before)
        except BadPatch as error:
            return failure(f"the patch does not apply: {error}")
        for path, content in results.items():
            if content is not None:
                containment.write_inside(site.root, path, content)
            else:
                path.unlink(missing_ok=True)
        return ok("patched " + ", ".join(self.paths(arguments)))


def _content(site: Site, path: Path) -> bytes | None:
    return containment.read_inside(site.root, path, _LIMIT) if path.is_file() else None


def _patched(patch: FilePatch, before: bytes | None) -> bytes | None:
    """What a file becomes; None is a file that is not there."""
    if patch.creates and before is not None:
        raise BadPatch(f"{patch.path} exists already")
    if not patch.creates and before is None:
        raise BadPatch(f"{patch.path} does not exist")
    try:
        result = patch.apply((before or b"").decode())
    except UnicodeDecodeError:
        raise BadPatch(f"{patch.path} is not UTF-8 text") from None
    return None if patch.deletes else result.encode()
