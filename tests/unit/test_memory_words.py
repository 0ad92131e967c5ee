"""Words: how names in code are cut, and that what is asked for in one form is found in another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singularity_memory import words
from singularity_memory.passages import MOST, WHOLE, passages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName", {"get", "user", "name", "getusername"}),
        ("get_user_name", {"get", "user", "name", "get_user_name"}),
        ("HTTPServerError", {"http", "server", "error", "httpservererror"}),
        ("utf8", {"utf", "8", "utf8"}),
        ("src/app/parse_config.py", {"src", "app", "parse_config", "py", "src_app_parse_config_py"}),
        ("os.path.join", {"os", "path", "join", "os_path_join"}),
        ("max.poll.interval.ms", {"poll", "max_poll_interval_ms"}),
        ("__init__", {"init"}),
        ("C:\\temp\\x", {"c", "temp", "x"}),
        ("Größe für Straße", {"größe", "für", "straße"}),
    ],
)
def test_names_whole_and_in_parts(text: str, expected: set[str]) -> None:
    assert {words.stem(word) if word.isalpha() and len(word) < 9 else word for word in expected} <= set(
        words.tokens(text)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("parse_config", "parseConfig"),
        ("files", "file"),
        ("parsing", "parsed"),
        ("running", "run"),
        ("libraries", "library"),
        ("caches", "caching"),
        ("classes", "class"),
        ("Retry", "retries"),
    ],
)
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert set(words.tokens(one)) & set(words.tokens(other))


@pytest.mark.parametrize(("one", "other"), [("string", "str"), ("bus", "bu"), ("this", "thi")])
def test_other_words_do_not(one: str, other: str) -> None:
    assert not set(words.tokens(one)) & set(words.tokens(other))


def test_a_query_is_read_without_stop_words_unless_it_has_no_others() -> None:
    assert words.terms("how do I open the file") == ["open", "file"]
    assert words.terms("what is this") == ["what", "is", "this"]
    assert words.terms("") == []


def test_a_name_of_thousands_of_parts_is_not_remembered() -> None:
    known = words._remembered.cache_info().currsize
    assert len(words.tokens(".".join(f"part{number}" for number in range(10_000)))) > 10_000
    assert words._remembered.cache_info().currsize == known


@given(st.text(max_size=300))
def test_words_are_what_the_index_splits_at_spaces(text: str) -> None:
    for word in words.tokens(text):
        assert word
        assert '"' not in word
        assert word.split() == [word]


@given(st.integers(0, 3000))
def test_passages_begin_with_the_whole_and_cover_the_text(count: int) -> None:
    text = " ".join(f"w{index}" for index in range(count))
    made = passages(text)
    assert made[0] == text
    assert (len(made) == 1) == (count <= WHOLE)
    assert len(made) <= MOST + 1
    if 1 < len(made) <= MOST:
        assert {word for part in made[1:] for word in part.split()} == set(text.split())
