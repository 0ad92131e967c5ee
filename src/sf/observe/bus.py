"""The in-process event bus. Subscribers are called in order, on the loop's thread, after the commit."""

from __future__ import annotations

from collections.abc import Callable

from sf.domain.events import Event

Subscriber = Callable[[Event], None]


class Bus:
    """Publish and subscribe; a subscriber that raises is reported and does not stop the others."""

    def __init__(self, report: Callable[[str], None] = lambda line: None) -> None:
        self._subscribers: list[Subscriber] = []
        self._report = report

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call this for every event from now on; the returned function ends it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def publish(self, event: Event) -> None:
        """Tell everyone."""
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:  # the boundary between the product and its observers
                self._report(f"subscriber failed event={event.name} error={type(error).__name__}: {error}")
