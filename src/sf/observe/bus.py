"""The in-process event bus. Subscribers are called in order, on the loop's thread, after the commit."""

from __future__ import annotations

from collections.abc import Callable

from sf.domain.events import Event

Subscriber = Callable[[Event], None]


class Bus:
    """Publish and subscribe; a subscriber that raises is reported and does not stop the others."""

    def __init__(self, report: Callable[[str], None] = lambda line: None) -> None:
        self._subscribers: list[tuple[Subscriber, tuple[str, ...]]] = []
        self._by_name: dict[str, tuple[Subscriber, ...]] = {}
        self._report = report

    def subscribe(self, subscriber: Subscriber, *names: str) -> Callable[[], None]:
        """Call this for every event of these names, or for all, until the returned function is called."""
        subscription = (subscriber, names)
        self._subscribers.append(subscription)
        self._by_name.clear()

        def leave() -> None:
            self._subscribers.remove(subscription)
            self._by_name.clear()

        return leave

    def publish(self, event: Event) -> None:
        """Tell everyone who wants to know."""
        for subscriber in self._subscribed_to(event.name):
            try:
                subscriber(event)
            except Exception as error:  # the boundary between the product and its observers
                self._report(f"subscriber failed event={event.name} error={type(error).__name__}: {error}")

    def _subscribed_to(self, name: str) -> tuple[Subscriber, ...]:
        found = self._by_name.get(name)
        if found is None:
            wanted = [subscriber for subscriber, names in self._subscribers if not names or name in names]
            found = self._by_name[name] = tuple(wanted)
        return found
