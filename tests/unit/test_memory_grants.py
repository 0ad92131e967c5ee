"""Tokens and what they allow, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singularity_memory.errors import BadRequest
from singularity_memory.folder import Folder, FolderTaken, FolderUnusable
from singularity_memory.grants import EVERYTHING, Grant, checked_patterns, matches
from singularity_memory.tokens import Tokens, UnknownToken


@given(st.text(), st.text())
def test_a_pattern_names_one_bank_or_all_that_begin_so(beginning: str, rest: str) -> None:
    bank = beginning + rest
    assert matches(beginning + "*", bank)
    assert matches("*", bank)
    assert matches(beginning, bank) is (beginning == bank or beginning.endswith("*"))


def test_a_grant_needs_both_the_bank_and_the_scope() -> None:
    grant = Grant("n", ("project/*", "global/coding"), ("read",))
    assert grant.allows("project/a", "read") and grant.allows("global/coding", "read")
    assert not grant.allows("project/a", "write")
    assert not grant.allows("project", "read") and not grant.allows("global/coding2", "read")
    assert not grant.covers_every_bank("read") and EVERYTHING.covers_every_bank("write")


@pytest.mark.parametrize("patterns", [[], [""], ["a*b"], ["**"], ["a", "*b"]])
def test_a_pattern_that_would_surprise_is_refused(patterns: list[str]) -> None:
    with pytest.raises(BadRequest):
        checked_patterns(patterns)


def test_tokens_are_given_once_and_known_by_their_hash(tmp_path: Path) -> None:
    tokens = Tokens(Folder(tmp_path / "data"))
    token = tokens.add("ci", ["project/*"], ["read"])
    assert tokens.grant(token) == Grant("ci", ("project/*",), ("read",))
    for wrong in ("", token[:-1], token + "x", token.upper(), "x" * 100_000, "\ud800"):
        assert tokens.grant(wrong) is None
    assert Tokens(Folder(tmp_path / "data")).grant(token) is not None
    tokens.revoke("ci")
    assert tokens.grant(token) is None
    with pytest.raises(UnknownToken):
        tokens.revoke("ci")


def test_the_first_token_may_do_everything_and_can_be_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    tokens = Tokens(folder)
    place = tokens.ensure_first()
    first = place.read_text(encoding="ascii").strip()
    assert tokens.ensure_first() == place and place.read_text(encoding="ascii").strip() == first
    grant = tokens.grant(first)
    assert grant is not None and grant.covers_every_bank("write") and grant.covers_every_bank("read")
    place.unlink()
    assert tokens.grant(first) is None
    assert tokens.ensure_first().read_text(encoding="ascii").strip() != first


def test_a_first_token_that_is_a_link_or_open_to_others_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine\n", encoding="ascii")
    folder.first_token.symlink_to(elsewhere)
    with pytest.raises(FolderUnusable):
        Tokens(folder).ensure_first()


def test_a_broken_list_of_tokens_lets_nobody_in(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    tokens = Tokens(folder)
    token = tokens.add("ci", ["*"], ["read"])
    folder.tokens.write_text("[{", encoding="utf-8")
    with pytest.raises(FolderUnusable):
        tokens.grant(token)
    with pytest.raises(FolderUnusable):
        tokens.add("other", ["*"], ["read"])


def test_a_folder_is_served_once(tmp_path: Path) -> None:
    first, second = Folder(tmp_path / "data"), Folder(tmp_path / "data")
    with first.served(), pytest.raises(FolderTaken), second.served():
        pass
    with second.served():
        pass
