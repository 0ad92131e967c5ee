"""Tokens: the first one in a file of its own, the others as hashes; each is shown once, when it is made."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from singularity_memory.errors import BadRequest, Mistake
from singularity_memory.folder import Folder, FolderUnusable
from singularity_memory.grants import EVERY_BANK, SCOPES, Grant, checked_patterns
from singularity_memory.operations import Scope

FIRST = "first"
_LONGEST = 512
_Seen = tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]


class UnknownToken(Mistake):
    """No token has this name."""

    code = "unknown_token"


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as it is kept: never itself, only its SHA-256."""

    name: str
    sha256: str
    banks: tuple[str, ...]
    scopes: tuple[Scope, ...]
    created_at: int

    @property
    def grant(self) -> Grant:
        """What it allows."""
        return Grant(self.name, self.banks, self.scopes)


class Tokens:
    """The tokens of a data folder; what another process adds or revokes counts from then on."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: _Seen | None = None
        self._known: tuple[Kept, ...] = ()

    def ensure_first(self) -> Path:
        """The file of the first token, which is made when there is none and may do everything."""
        place = self._folder.first_token
        with self._folder.changing_tokens():
            try:
                mode = place.lstat().st_mode
            except FileNotFoundError:
                _write(place, _fresh().encode() + b"\n")
                return place
        if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
            raise FolderUnusable(f"{place} must be a file that only its owner can read: chmod 600 {place}")
        return place

    def add(self, name: str, banks: Sequence[str], scopes: Sequence[Scope]) -> str:
        """Make a token and give it, this once. Raises BadRequest for a name that is taken or says nothing."""
        if not name.strip() or len(name) > _LONGEST or not name.isprintable():
            raise BadRequest(f"a token's name has 1 to {_LONGEST} printable characters")
        wanted = tuple(scope for scope in SCOPES if scope in scopes)
        if not wanted:
            raise BadRequest("a token needs a scope: read, write or both")
        token = _fresh()
        made = Kept(name, _digest(token), checked_patterns(banks), wanted, int(time.time()))
        with self._folder.changing_tokens():
            known = self._added()
            if name == FIRST or any(kept.name == name for kept in known):
                raise BadRequest(f"there is a token {name!r} already; revoke it first")
            self._keep((*known, made))
        return token

    def revoke(self, name: str) -> None:
        """Take a token back. Raises UnknownToken."""
        with self._folder.changing_tokens():
            known = self._added()
            left = tuple(kept for kept in known if kept.name != name)
            if len(left) == len(known):
                hint = f"; remove {self._folder.first_token} to replace it" if name == FIRST else ""
                raise UnknownToken(f"there is no token {name!r} to revoke{hint}")
            self._keep(left)

    def every(self) -> tuple[Kept, ...]:
        """All tokens, the first one first."""
        with self._lock:
            now = (_state(self._folder.first_token), _state(self._folder.tokens))
            if now != self._seen:
                self._known = (*self._first(), *self._added())
                self._seen = now
            return self._known

    def grant(self, token: str) -> Grant | None:
        """What a token allows; None when nobody gave it. Takes the same time for every wrong one."""
        presented = _digest(token[:_LONGEST])
        found: Grant | None = None
        for kept in self.every():
            if hmac.compare_digest(kept.sha256, presented):
                found = kept.grant
        return found

    def _first(self) -> tuple[Kept, ...]:
        try:
            token = self._folder.first_token.read_text(encoding="ascii").strip()
            made = int(self._folder.first_token.stat().st_mtime)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            raise FolderUnusable(f"{self._folder.first_token}: {error}") from error
        return (Kept(FIRST, _digest(token), (EVERY_BANK,), SCOPES, made),) if token else ()

    def _added(self) -> tuple[Kept, ...]:
        try:
            return msgspec.json.decode(self._folder.tokens.read_bytes(), type=tuple[Kept, ...])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError) as error:
            raise FolderUnusable(f"{self._folder.tokens}: {error}") from error

    def _keep(self, tokens: tuple[Kept, ...]) -> None:
        _write(self._folder.tokens, msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")


def _fresh() -> str:
    return "sm_" + secrets.token_urlsafe(32)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderUnusable(f"{file}: {error.strerror or error}") from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _write(place: Path, content: bytes) -> None:
    """Put a file in place whole, on disk, for its owner only."""
    beside = place.with_name(f"{place.name}.{os.getpid()}.new")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(file)
        beside.replace(place)
        above = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)
    except OSError as error:
        raise FolderUnusable(f"{place}: {error.strerror or error}") from error
