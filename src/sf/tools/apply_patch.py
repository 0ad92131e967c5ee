"""apply_patch: a unified diff over one or more files, all of it or nothing."""

from __future__ import annotations

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
        try:
            results = [(patch, _patched(site, patch)) for patch in parse(arguments.patch)]
        except BadPatch as error:
            return failure(f"the patch does not apply: {error}")
        for patch, content in results:
            path = writable(site, patch.path)
            if content is None:
                path.unlink()
            else:
                containment.write_inside(site.root, path, content.encode())
        return ok("patched " + ", ".join(patch.path for patch, _ in results))


def _patched(site: Site, patch: FilePatch) -> str | None:
    path = writable(site, patch.path)
    if patch.creates:
        if path.exists():
            raise BadPatch(f"{patch.path} exists already")
        return patch.apply("")
    if not path.is_file():
        raise BadPatch(f"{patch.path} does not exist")
    try:
        text = containment.read_inside(site.root, path, _LIMIT).decode()
    except UnicodeDecodeError:
        raise BadPatch(f"{patch.path} is not UTF-8 text") from None
    result = patch.apply(text)
    return None if patch.deletes else result
