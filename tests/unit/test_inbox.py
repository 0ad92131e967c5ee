"""The inbox: nothing is lost between threads, whoever is asleep when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sf.store.inbox import Inbox

_EACH = 5_000


@pytest.fixture
def inbox() -> Iterator[Inbox[tuple[int, int]]]:
    made: Inbox[tuple[int, int]] = Inbox()
    yield made
    made.close()


def taken_by_a_thread(inbox: Inbox[tuple[int, int]]) -> tuple[threading.Thread, list[tuple[int, int]]]:
    """Who takes everything out, sleeping whenever there is nothing."""
    found: list[tuple[int, int]] = []

    def serve() -> None:
        while (item := inbox.wait()) is not None:
            found.append(item)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread, found


def test_what_many_put_in_comes_out_once_and_in_the_order_of_each(inbox: Inbox[tuple[int, int]]) -> None:
    reader, found = taken_by_a_thread(inbox)

    def put(sender: int) -> None:
        for number in range(_EACH):
            inbox.put((sender, number))
            inbox.ring()

    senders = [threading.Thread(target=put, args=(sender,)) for sender in range(3)]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join()
    inbox.end()
    reader.join(10)
    assert not reader.is_alive()
    for sender in range(3):
        assert [number for who, number in found if who == sender] == list(range(_EACH))


def test_one_who_sleeps_is_woken_each_time(inbox: Inbox[tuple[int, int]]) -> None:
    reader, found = taken_by_a_thread(inbox)
    for number in range(200):
        inbox.put((0, number))
        inbox.ring()
        deadline = time.monotonic() + 10
        while len(found) <= number:
            assert time.monotonic() < deadline, f"nobody was woken for {number}"
            time.sleep(0.0005)
    inbox.end()
    reader.join(10)
    assert not reader.is_alive()


def test_what_was_put_in_before_the_end_is_taken_without_a_ring(inbox: Inbox[tuple[int, int]]) -> None:
    for number in range(3):
        inbox.put((0, number))
    inbox.end()
    reader, found = taken_by_a_thread(inbox)
    reader.join(10)
    assert found == [(0, 0), (0, 1), (0, 2)] and inbox.take() is None


def test_a_ring_after_the_end_touches_nothing(inbox: Inbox[tuple[int, int]]) -> None:
    reader, _ = taken_by_a_thread(inbox)
    inbox.end()
    reader.join(10)
    inbox.close()
    inbox.close()
    inbox.put((0, 0))
    inbox.ring()
    assert inbox.take() == (0, 0)
