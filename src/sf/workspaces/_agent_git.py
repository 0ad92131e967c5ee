"""The disposable `.git` that an agent sees: written as files, never read by internal git."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import subprocess
from pathlib import Path

from sf.workspaces.git import Identity

_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = false
\tlogallrefupdates = true
[gc]
\tauto = 0
[user]
\tname = {name}
\temail = {email}
"""


_EVERYWHERE = "info/attributes-everywhere"


def write(
    folder: Path,
    owned: Path,
    index: Path,
    branch: str | None,
    commit: str,
    identity: Identity,
    attributes: Path | None = None,
) -> None:
    """Replace `folder/.git` by a fresh one at `commit`, on `branch` or detached.

    `attributes` are the user's for all repositories: with others files would look changed that are not.
    """
    new = folder.parent / f".{folder.name}.git-{secrets.token_hex(6)}"
    try:
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (new / name).mkdir(parents=True)
        config = _CONFIG.format(name=_value(identity.name), email=_value(identity.email))
        if attributes is not None and os.access(attributes, os.R_OK):
            shutil.copyfile(attributes, new / _EVERYWHERE)
            config += f"[core]\n\tattributesFile = {_value(str(folder / '.git' / _EVERYWHERE))}\n"
        (new / "config").write_bytes(os.fsencode(config))
        (new / "objects" / "info" / "alternates").write_text(f"{owned / 'objects'}\n")
        if branch is None:
            (new / "HEAD").write_text(f"{commit}\n")
        else:
            (new / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
            ref = new / "refs" / "heads" / branch
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(f"{commit}\n")
        for name in ("info/exclude", "info/attributes", "shallow"):
            if (owned / name).is_file():
                shutil.copyfile(owned / name, new / name)
        shutil.copyfile(index, new / "index")
        old = folder.parent / f"{new.name}.gone"
        if os.path.lexists(folder / ".git"):
            (folder / ".git").rename(old)
        new.rename(folder / ".git")
    except BaseException:
        discard(new)
        raise
    # Out of the way in any case; the next start tries again, and says so.
    with contextlib.suppress(OSError):
        discard(old)


def discard(path: Path) -> None:
    """Remove whatever is at `path`, following no link and overcoming directories made unreadable."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        path.unlink()
        return
    try:
        for parent, folders, _ in os.walk(path, onerror=None):
            for name in folders:
                place = Path(parent) / name
                if not place.is_symlink() and stat.S_IMODE(place.stat().st_mode) & 0o700 != 0o700:
                    place.chmod(0o700)
        shutil.rmtree(path)
    except RecursionError:
        _discard_deep(path)


def _discard_deep(path: Path) -> None:
    """Folders in folders in folders, more than Python can go down into."""
    for command in (["chmod", "-R", "u+rwx", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"cannot remove {path}: {done.stderr.strip()[:300]}")


def _value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
