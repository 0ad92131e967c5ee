"""Where things are kept: paths, artifacts, the archive; and secrets, which are kept nowhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from sf.errors import NotAProject, SecretUnavailable
from sf.harness import artifacts
from sf.paths import Project, find_project, sf_home
from sf.secrets import NO_KEY, resolve
from sf.store.place import Url, has_password, problem
from sf.testing.clock import FakeClock


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(root=tmp_path / "work", home=tmp_path / "home")


@pytest.mark.conforms("C-40")
def test_a_finished_units_folder_is_moved_to_the_archive_by_one_rename(project: Project) -> None:
    clock = FakeClock()
    artifacts.write(project, "task/m1/s1/t1", artifacts.PLAN, "# Goal\n")
    inode = project.active("task/m1/s1/t1").stat().st_ino
    target = artifacts.archive(project, "task/m1/s1/t1", clock.now())
    assert target == project.dot / "archive" / "2026-01-01-task_m1_s1_t1"
    assert target.stat().st_ino == inode, "renamed, not copied"
    assert (target / "plan.md").read_text() == "# Goal\n"
    assert not project.active("task/m1/s1/t1").exists()
    assert artifacts.archive(project, "task/m1/s1/t1", clock.now()) is None


def test_a_folder_that_cannot_be_looked_for_is_not_taken_for_none(project: Project) -> None:
    project.dot.mkdir(parents=True)
    (project.dot / "active").symlink_to("active")
    with pytest.raises(OSError, match="symbolic links"):
        artifacts.archive(project, "task/a1", FakeClock().now())


def test_the_artifacts_of_a_project_at_the_root_are_below_its_folder(tmp_path: Path) -> None:
    project = Project(root=Path("/"), home=tmp_path)
    assert project.active("task/a1").is_relative_to(project.dot)


@pytest.mark.conforms("C-40")
def test_an_archive_never_overwrites_an_earlier_one(project: Project) -> None:
    now = FakeClock().now()
    targets = []
    for text in ("first", "second", "third"):
        artifacts.write(project, "task/a1", artifacts.PLAN, text)
        targets.append(artifacts.archive(project, "task/a1", now))
    assert len(set(targets)) == 3
    assert [(target / "plan.md").read_text() for target in targets if target] == ["first", "second", "third"]


def test_artifacts_are_written_whole_read_within_a_budget_and_appended(project: Project) -> None:
    assert artifacts.read(project, "task/a1", artifacts.PLAN) == ""
    artifacts.write(project, "task/a1", artifacts.PLAN, "x" * 100)
    artifacts.write(project, "task/a1", artifacts.PLAN, "y" * 100)
    assert artifacts.read(project, "task/a1", artifacts.PLAN) == "y" * 100
    assert artifacts.read(project, "task/a1", artifacts.PLAN, 10).startswith("y" * 10 + "\n... [cut]")
    artifacts.append_line(project, "task/a1", artifacts.ATTEMPTS, "one\n")
    artifacts.append_line(project, "task/a1", artifacts.ATTEMPTS, "two")
    assert artifacts.read(project, "task/a1", artifacts.ATTEMPTS) == "one\ntwo\n"
    assert sorted(file.name for file in project.active("task/a1").iterdir()) == ["attempts.md", "plan.md"]


def test_the_workspace_link_follows_the_worktree(project: Project, tmp_path: Path) -> None:
    for name in ("one", "two", "two"):
        artifacts.link_workspace(project, "task/a1", tmp_path / name)
        assert (project.active("task/a1") / "workspace").readlink() == tmp_path / name


def test_a_project_is_found_from_below_and_the_sf_home_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SF_HOME", str(tmp_path / ".sf"))
    (tmp_path / ".sf").mkdir()
    (tmp_path / "work" / ".sf").mkdir(parents=True)
    (tmp_path / "work" / "deep" / "er").mkdir(parents=True)
    assert find_project(tmp_path / "work" / "deep" / "er").root == tmp_path / "work"
    with pytest.raises(NotAProject):
        find_project(tmp_path)
    assert sf_home({}) == Path.home() / ".sf"
    assert sf_home({"SF_HOME": "/x/y"}) == Path("/x/y")


@pytest.mark.conforms("C-56")
def test_each_project_has_a_lock_and_a_database_of_its_own(tmp_path: Path) -> None:
    one = Project(root=tmp_path / "a" / "same", home=tmp_path)
    two = Project(root=tmp_path / "b" / "same", home=tmp_path)
    assert one.lock == tmp_path / "a" / "same" / ".sf" / "run.lock"
    assert len({one.lock, two.lock}) == len({one.database, two.database}) == 2
    assert one.key != two.key, "two projects of one name do not share worktrees"
    assert not one.worktrees.is_relative_to(one.root)


# --- secrets ---


def test_a_key_comes_from_a_command_or_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("openai", "$(echo the-key)", has_base_url=False) == "the-key"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")
    assert resolve("anthropic", "", has_base_url=False) == "from-env"
    monkeypatch.setenv("MY_HOST_API_KEY", "mine")
    assert resolve("my-host", "", has_base_url=True) == "mine"
    monkeypatch.delenv("MY_HOST_API_KEY")
    assert resolve("my-host", "", has_base_url=True) == NO_KEY
    with pytest.raises(SecretUnavailable, match="my-host") as missing:
        resolve("my-host", "", has_base_url=False)
    assert "MY_HOST_API_KEY" in missing.value.hint


def test_a_command_that_fails_says_so_without_what_it_printed() -> None:
    for command in ("$(echo half-a-secret; exit 3)", "$(true)", "$(no-such-command-here)"):
        with pytest.raises(SecretUnavailable) as failed:
            resolve("openai", command, has_base_url=False)
        assert "half-a-secret" not in failed.value.line()


@pytest.mark.parametrize(
    "password", ["7?sesame", "?sesame", "7/sesame", "7#sesame", "a@sesame", "word?sesame", "7,8?sesame"]
)
def test_a_password_that_is_not_encoded_is_refused_and_not_repeated(password: str) -> None:
    url = f"postgresql://me:{password}@127.0.0.1:5432/db?sslmode=require"
    wrong = problem(url)
    assert "percent-encode" in wrong and "sesame" not in wrong
    assert problem(url.replace(password, quote(password, safe=""))) == ""


def test_a_url_may_name_several_servers() -> None:
    url = "postgresql://me:sesame@one:5432,two:5433,three/db?target_session_attrs=read-write"
    assert problem(url) == "" and has_password(url)
    assert str(Url(url, "s")) == "postgresql://me@one:5432,two:5433,three/db schema s"
    assert "percent-encode" in problem(url.replace("5433", "port"))
