"""Inbox and outbox: nothing is lost between threads, whoever is asleep when."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from sf.store.inbox import Inbox, Outbox

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


async def test_a_loop_gets_what_another_thread_hands_back_in_its_order() -> None:
    found: list[int] = []
    has_all = asyncio.Event()

    def deliver(number: int) -> None:
        found.append(number)
        if len(found) == _EACH:
            has_all.set()

    outbox = Outbox[int](asyncio.get_running_loop(), deliver)

    def hand_back() -> None:
        for number in range(_EACH):
            outbox.put(number)

    await asyncio.to_thread(hand_back)
    await asyncio.wait_for(has_all.wait(), 10)
    outbox.close()
    assert found == list(range(_EACH))


async def test_what_was_handed_back_before_the_close_is_delivered_by_it() -> None:
    found: list[int] = []
    outbox = Outbox[int](asyncio.get_running_loop(), found.append)
    outbox.put(1)
    outbox.close()
    assert found == [1]


async def test_a_loop_can_be_left_from_another_thread() -> None:
    found: list[int] = []
    outbox = Outbox[int](asyncio.get_running_loop(), found.append)
    await asyncio.to_thread(outbox.put, 1)
    await asyncio.to_thread(outbox.close)
    await asyncio.sleep(0.05)
    assert found == [1]
    # What has the pipe's number by now is not taken for it.
    other = Outbox[int](asyncio.get_running_loop(), found.append)
    other.put(2)
    await asyncio.sleep(0.05)
    other.close()
    assert found == [1, 2]


def test_what_comes_after_the_end_of_a_loop_is_nobodys() -> None:
    found: list[int] = []

    async def made() -> Outbox[int]:
        return Outbox[int](asyncio.get_running_loop(), found.append)

    outbox = asyncio.run(made())
    outbox.put(1)
    outbox.close()
    assert found == []
