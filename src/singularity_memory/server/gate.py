"""The gate before the application: host and origin, token, how much at once, and the whole body in time."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from singularity_memory.errors import Failure, MemoryFault
from singularity_memory.folder import FolderUnusable
from singularity_memory.grants import Grant
from singularity_memory.server import faults
from singularity_memory.server.limits import Limits
from singularity_memory.tokens import Tokens

_LOG = logging.getLogger("singularity_memory")
_OPEN = frozenset({"/v1/health", "/openapi.json"})
"""What is answered without a token; a token that is shown must be a good one all the same."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Gate:
    """Lets requests in; every refusal and every failure behind it leaves as JSON."""

    def __init__(
        self,
        inner: ASGIApp,
        tokens: Tokens,
        limits: Limits,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
    ) -> None:
        self._inner, self._tokens, self._limits = inner, tokens, limits
        self._hosts = _LOCAL | {host.lower() for host in hosts}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._in_hand = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        outlet = _Outlet(send)
        try:
            await self._admit(scope, receive, outlet)
        except MemoryFault as fault:
            await _refuse(fault, scope, receive, outlet)
        except Exception:  # the request's boundary: one request may fail, the server goes on
            _LOG.exception("a request to %s failed", scope["path"])
            await _refuse(MemoryFault("the server failed; its log says how"), scope, receive, outlet)

    async def _admit(self, scope: Scope, receive: Receive, send: _Outlet) -> None:
        request = Request(scope)
        self._check_place(request.headers)
        grant = self._grant(request.headers, scope["path"])
        if grant is None and _has_body(request.headers):
            # A stranger would else hold a place for as long as a body may take.
            raise faults.TooLarge("no body is taken without a token")
        if self._in_hand >= self._limits.requests:
            raise faults.TooBusy(f"{self._in_hand} requests are in hand already")
        self._in_hand += 1
        try:
            body = await self._body(request.headers, receive)
            scope.setdefault("state", {})["grant"] = grant
            await self._inner(scope, _replayed(body, receive), send)
        finally:
            self._in_hand -= 1

    def _check_place(self, headers: Mapping[str, str]) -> None:
        """A page of another site that has its name lead here sends its own name as host or origin."""
        host = headers.get("host", "")
        if _hostname(f"//{host}") not in self._hosts:
            raise faults.Refused(
                f"not served for the host {host[:100]!r}; the server's --allow-host adds one"
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower().rstrip("/") not in self._origins:
            raise faults.Refused(f"not served to pages of {origin[:100]!r}; --allow-origin adds one")

    def _grant(self, headers: Mapping[str, str], path: str) -> Grant | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if not kind and path in _OPEN:
            return None
        try:
            found = self._tokens.grant(token.strip()) if kind.lower() == "bearer" else None
        except FolderUnusable as error:
            _LOG.error("the tokens cannot be read: %s", error.message)
            raise Failure("the server cannot read its tokens; its log says why") from error
        if found is None:
            raise faults.Unauthorised(
                "this needs the header «Authorization: Bearer <token>» with a good token"
            )
        return found

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        most = self._limits.body_bytes
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > most:
            raise faults.TooLarge(f"a body has at most {most} bytes")
        read = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    read += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(read) > most:
                        raise faults.TooLarge(f"a body has at most {most} bytes")
        except TimeoutError as error:
            raise faults.TooSlow("the body did not come in time") from error
        return bytes(read)


class _Outlet:
    """Sends an answer, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


async def _refuse(fault: MemoryFault, scope: Scope, receive: Receive, send: _Outlet) -> None:
    if send.begun:
        return
    await faults.response(fault)(scope, receive, send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once, whole; then what the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _has_body(headers: Mapping[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _hostname(address: str) -> str:
    try:
        name = (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
