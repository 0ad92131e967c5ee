"""From a body to the request that it says."""

from __future__ import annotations

import msgspec

from singularity_memory import wire
from singularity_memory.errors import Mistake
from singularity_memory.operations import Operation


class Malformed(Mistake):
    """The body is not what is asked for."""

    code = "malformed"


def parsed(body: bytes, operation: Operation) -> wire.Request:
    """The request that a body says. Raises Malformed, with the field's name."""
    try:
        found: wire.Request = msgspec.json.decode(body, type=operation.request)
    except msgspec.MsgspecError as error:
        raise Malformed(str(error)) from error
    except RecursionError as error:
        raise Malformed("the body is nested too deeply") from error
    return found
