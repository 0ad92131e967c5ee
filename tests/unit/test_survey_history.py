"""What commits tell: active areas, hot files, files that change together, people."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sf.domain.past import PastCommit
from sf.survey.history import Past, pairs_of, past_of

DAY = 86_400
NOW = 1_750_000_000


def commit(*paths: str, days: int = 0, author: str = "Ann", subject: str = "Change it") -> PastCommit:
    return PastCommit(author, NOW - days * DAY, subject, paths)


def test_no_commits_tell_nothing() -> None:
    assert past_of([], {"a.py"}) == Past()


def test_recent_changes_weigh_more() -> None:
    commits = [commit("src/new/a.py", "x.py", days=1) for _ in range(3)]
    commits += [commit("src/old/b.py", days=900) for _ in range(10)]
    found = past_of(commits, {"src/new/a.py", "src/old/b.py", "x.py"})
    assert [(area.path, area.commits) for area in found.areas] == [("src/new", 3), ("src/old", 10)]
    assert [(file.path, file.commits) for file in found.hot_files] == [
        ("src/new/a.py", 3),
        ("x.py", 3),
        ("src/old/b.py", 10),
    ]
    assert found.areas[1].weight < 0.02


def test_what_is_gone_is_not_told() -> None:
    found = past_of([commit("gone/a.py", "kept/b.py", days=n) for n in range(3)], {"kept/b.py"})
    assert [area.path for area in found.areas] == ["kept"]
    assert [file.path for file in found.hot_files] == ["kept/b.py"]
    assert found.pairs == ()


def test_files_that_change_together() -> None:
    commits = [commit("a.py", "b.py") for _ in range(4)] + [commit("b.py", "c.py")] * 2 + [commit("b.py")] * 6
    (pair,) = pairs_of(commits, {"a.py", "b.py", "c.py"})
    assert (pair.first, pair.second, pair.support, pair.confidence) == ("a.py", "b.py", 4, 1.0)


def test_a_huge_commit_says_nothing_about_pairs_and_hot_files() -> None:
    names = [f"f{number}.py" for number in range(60)]
    found = past_of([commit(*names) for _ in range(5)], set(names))
    assert (found.pairs, found.hot_files) == ((), ())


def test_no_file_is_in_many_pairs() -> None:
    names = [f"f{number:02}.py" for number in range(12)]
    pairs = pairs_of([commit(*names) for _ in range(5)], set(names))
    assert pairs
    assert max(sum(name in (pair.first, pair.second) for pair in pairs) for name in names) <= 3


def test_people_have_names_and_no_addresses() -> None:
    commits = [
        commit(author="Ann", days=1),
        commit(author="Ann", days=200),
        commit(author="bob@corp.example"),
    ]
    found = past_of(commits, set())
    assert [(one.name, one.commits, one.recent) for one in found.contributors] == [
        ("Ann", 2, 1),
        ("bob", 1, 1),
    ]
    assert found.people == 2
    assert "corp" not in str(found)


@pytest.mark.parametrize(
    ("subjects", "style"),
    [
        (["feat: a", "fix(x): b", "chore!: c", "docs: d", "test: e"], "Conventional Commits (type: subject)"),
        (["store: a", "loop: b", "cli: c", "x: d", "y: e"], "an area and a colon before the subject"),
        (["Add a", "Fix b", "Drop c", "Say d", "Make e"], "a plain sentence with a capital letter"),
        (["add a", "Fix b", "x: c", "feat: d", "e"], ""),
        (["Add a"], ""),
    ],
)
def test_the_form_of_subjects(subjects: list[str], style: str) -> None:
    assert past_of([commit(subject=subject) for subject in subjects], set()).style == style


def test_a_date_that_is_to_come_does_not_outweigh_everything() -> None:
    commits = [PastCommit("Eve", 2**62, "x", ("evil/a.py",)), *(commit("src/a.py", days=n) for n in range(3))]
    found = past_of(commits, {"evil/a.py", "src/a.py"}, now=NOW)
    assert found.areas[0].path == "src"
    assert found.areas[0].weight > 2.9


def test_text_of_the_repository_is_cleaned() -> None:
    found = past_of(
        [commit("a\n\x1b[31m/b.py", author="E\x1b[2Jve\n", subject="x\x07\u202e" + "y" * 9000)] * 3,
        {"a\n\x1b[31m/b.py"},
    )
    assert found.contributors[0].name == "E [2Jve"
    assert len(found.subjects[0]) <= 100
    assert found.areas[0].path == "a\\n\\x1b[31m"
    assert all(character.isprintable() for character in str(found.subjects) + found.areas[0].path)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=5)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
COMMITS = st.lists(
    st.builds(
        PastCommit,
        author=st.text(max_size=20),
        at=st.integers(0, 2**63),
        subject=st.text(max_size=40),
        paths=st.lists(PATHS, max_size=6).map(tuple),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(commits=COMMITS, present=st.sets(PATHS, max_size=8))
def test_whatever_the_commits_are_the_findings_are_bounded(
    commits: list[PastCommit], present: set[str]
) -> None:
    found = past_of(commits, present, now=NOW)
    assert found.commits == len(commits)
    assert all(0 < pair.confidence <= 1 and pair.support >= 3 for pair in found.pairs)
    assert all(area.commits <= len(commits) for area in (*found.areas, *found.hot_files))
    assert all(text.isprintable() for text in (*found.subjects, *(one.name for one in found.contributors)))
