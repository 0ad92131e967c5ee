"""Single files of a commit, written where nothing of the rest of it is."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from sf.workspaces.owned import OwnedRepository

_FILES = {"100644": 0o644, "100755": 0o755}


async def extract(owned: OwnedRepository, commit: str, paths: Sequence[str], folder: Path) -> None:
    """Make `folder` with what a commit holds at these paths, folders as a whole; links are left out.

    One that is there already is taken as it is: its name must say what is in it.
    """
    if folder.is_dir():
        return
    listed = await owned.git.run("ls-tree", "-r", "-z", commit, "--", *paths, git_dir=owned.git_dir)
    half = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        half.mkdir(parents=True)
        for entry in listed.names():
            head, _, name = entry.partition("\t")
            mode, _, object_id = head.split()
            if mode in _FILES:
                blob = await owned.git.run("cat-file", "blob", object_id, git_dir=owned.git_dir)
                await asyncio.to_thread(_write, half / name, blob.stdout, _FILES[mode])
        await asyncio.to_thread(half.replace, folder)
    except OSError:
        # Another run was faster.
        if not folder.is_dir():
            raise
    finally:
        await asyncio.to_thread(shutil.rmtree, half, ignore_errors=True)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
