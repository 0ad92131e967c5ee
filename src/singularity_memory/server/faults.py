"""Faults as answers: which status a code has, and the JSON that says it.

Mistake
├── Malformed         malformed (the body is not what is asked for; parsing.py)
├── Unauthorised      unauthorised (no token, or one that nobody gave)
├── Refused           refused (a host or an origin that is not served)
├── NoSuchPlace       no_such_place
├── WrongMethod       wrong_method
└── TooLarge          too_large
Failure
├── TooSlow           too_slow (the client did not send its body in time)
└── TooBusy           too_busy
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from singularity_memory import wire
from singularity_memory.errors import Failure, MemoryFault, Mistake

RETRY_SECONDS = 1
_STATUSES: Mapping[str, int] = {
    "malformed": 400,
    "bad_request": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "refused": 403,
    "unknown_entry": 404,
    "no_such_place": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "too_large": 413,
    "too_busy": 503,
    "store_failed": 503,
}
_EXTRA: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    503: {"Retry-After": str(RETRY_SECONDS)},
}


class Unauthorised(Mistake):
    """There is no token, or nobody gave it."""

    code = "unauthorised"


class Refused(Mistake):
    """The host or the origin is not served."""

    code = "refused"


class NoSuchPlace(Mistake):
    """Nothing is served at this path."""

    code = "no_such_place"


class WrongMethod(Mistake):
    """The path is served, but not by this method."""

    code = "wrong_method"


class TooLarge(Mistake):
    """The body is larger than the server takes."""

    code = "too_large"


class TooSlow(Failure):
    """The client did not send its body in time."""

    code = "too_slow"


class TooBusy(Failure):
    """As many requests are in hand as the server takes."""

    code = "too_busy"


def status(fault: MemoryFault) -> int:
    """The HTTP status of a fault; 500 for one that is nobody's mistake."""
    return _STATUSES.get(fault.code, 400 if isinstance(fault, Mistake) else 500)


def response(fault: MemoryFault) -> Response:
    """The answer that says a fault."""
    code = status(fault)
    body = msgspec.json.encode(wire.FaultAnswer(wire.Fault(fault.code, fault.message)))
    return Response(body, code, dict(headers(code)), "application/json")


def headers(code: int) -> Mapping[str, str]:
    """What an answer of a status carries besides."""
    return _EXTRA.get(code, {})
