"""The OpenAPI document, made from the operations and the wire's types: it cannot disagree with them."""

from __future__ import annotations

from typing import Any

import msgspec

from singularity_memory import wire
from singularity_memory.operations import HEALTH, OPERATIONS, Operation

VERSION = "1.0.0"
_REF = "#/components/schemas/{name}"
_FAULTS = {
    "400": "The body is not what is asked for; the message names the field.",
    "401": "There is no token, or nobody gave it.",
    "403": "The token does not cover this bank or scope, or the host or origin is not served.",
    "404": "There is no such entry.",
    "408": "The body did not come in time.",
    "413": "The body is too large.",
    "500": "The server failed.",
    "503": "The server is too busy, or its store does not answer; Retry-After says when to ask again.",
}


def document() -> dict[str, Any]:
    """The document as JSON values, the same for every server of this version."""
    kinds = [
        *(operation.request for operation in OPERATIONS if operation.method == "POST"),
        *(operation.reply for operation in OPERATIONS),
        wire.FaultAnswer,
    ]
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    _, asked = msgspec.json.schema_components([one.request for one in OPERATIONS], ref_template=_REF)
    for name in components.keys() - asked.keys() - {wire.HealthAnswer.__name__}:
        # What has a default is sent all the same: who reads an answer can rely on every field.
        components[name]["required"] = list(components[name].get("properties", {}))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Singularity Memory",
            "version": VERSION,
            "description": "Knowledge that survives: banks of entries, kept and recalled.",
        },
        "paths": {operation.path: {operation.method.lower(): _path(operation)} for operation in OPERATIONS},
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def encoded() -> bytes:
    """The document as it is served."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2)


def plain_schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a struct as an object that stands alone, as MCP wants it."""
    (top,), others = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = top["$ref"].rpartition("/")[2]
    found = others.pop(name)
    return {**found, "$defs": others} if others else found


def _path(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.about,
        "security": [{"token": []}, {}] if operation is HEALTH else [{"token": []}],
        "responses": {
            "200": {"description": "Done.", "content": _json(operation.reply)},
            **{code: _fault(code, operation) for code in _FAULTS},
        },
    }
    if operation.method == "POST":
        found["requestBody"] = {"required": True, "content": _json(operation.request)}
    return found


def _fault(code: str, operation: Operation) -> dict[str, Any]:
    if code == "503" and operation is HEALTH:
        return {"description": "The memory does not answer.", "content": _json(wire.HealthAnswer)}
    return {"description": _FAULTS[code], "content": _json(wire.FaultAnswer)}


def _json(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
