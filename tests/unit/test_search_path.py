"""Whose programs contained commands find: the user's, not those of the environment that sf runs from."""

from __future__ import annotations

from pathlib import Path

import pytest

from sf.policy.search_path import own_environment, without

SOURCES = Path("/opt/sf")
OWN = SOURCES / ".venv"
BASE = Path("/usr")


@pytest.mark.parametrize(
    ("prefix", "base", "own"),
    [
        (OWN, BASE, OWN),
        (Path("/home/me/project/.venv"), BASE, None),
        (BASE, BASE, None),
        (OWN, OWN, None),
    ],
)
def test_only_the_environment_beside_its_sources_is_sfs_own(
    prefix: Path, base: Path, own: Path | None
) -> None:
    assert own_environment(prefix, base, SOURCES) == own


@pytest.mark.parametrize(
    ("search_path", "root", "left"),
    [
        ("/opt/sf/.venv/bin:/usr/bin:/bin", "/home/me/project", "/usr/bin:/bin"),
        ("/usr/bin:/opt/sf/.venv/bin/::/bin", "/home/me/project", "/usr/bin::/bin"),
        ("/opt/sf/.venv/bin", "/home/me/project", ""),
        ("/opt/sf/.venv/bin:/usr/bin", "/opt/sf", "/opt/sf/.venv/bin:/usr/bin"),
        ("/home/me/project/.venv/bin:/usr/bin", "/home/me/project", "/home/me/project/.venv/bin:/usr/bin"),
    ],
)
def test_it_is_taken_from_the_path_unless_it_is_the_projects(search_path: str, root: str, left: str) -> None:
    given = {"PATH": search_path, "LANG": "C", "VIRTUAL_ENV": str(OWN)}
    assert without(given, OWN, Path(root)) == {**given, "PATH": left}


def test_by_a_link_it_is_the_same_folder(tmp_path: Path) -> None:
    own = tmp_path / "sf" / ".venv"
    (own / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(own / "bin")
    assert without({"PATH": f"{tmp_path}/link:/bin"}, own.resolve(), tmp_path / "project")["PATH"] == "/bin"
    assert without({"PATH": f"{own}/bin:/bin"}, None, tmp_path)["PATH"] == f"{own}/bin:/bin"
