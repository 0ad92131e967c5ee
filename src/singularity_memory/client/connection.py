"""A connection to a memory server: one attempt for each request, in time, under a token."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpx2
import msgspec

from singularity_memory.client.models import FaultAnswer
from singularity_memory.errors import Failure, MemoryFault

T = TypeVar("T")
DEFAULT_SECONDS = 30.0
LONGEST_ANSWER = 128 * 1024 * 1024
"""Bytes; the largest part of an export is well below."""


class Unreachable(Failure):
    """The server did not answer in time, could not be reached, failed, or is too busy: it may work later."""

    code = "unreachable"


class Rejected(MemoryFault):
    """The server refused: the same request will be refused again. `told` is the server's own code."""

    code = "rejected"

    def __init__(self, status: int, told: str, message: str) -> None:
        super().__init__(f"{message} ({told})")
        self.status = status
        self.told = told


class Connection:
    """Asks a server. Nothing is tried twice, and no proxy of the environment sees the token."""

    def __init__(self, url: str, token: str = "", *, seconds: float = DEFAULT_SECONDS) -> None:
        self._seconds = seconds
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            # The library would refuse it too, and show it.
            raise Unreachable("the token has a character that no header carries")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx2.AsyncClient(
                base_url=url, headers=headers, timeout=seconds, trust_env=False, follow_redirects=False
            )
        except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
            raise Unreachable(f"not an address: {error}") from error
        self.where = str(self._http.base_url.copy_with(userinfo=b"")).rstrip("/")
        """The address without a login, as messages name it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def ask(
        self,
        method: Literal["GET", "POST"],
        path: str,
        request: msgspec.Struct | None,
        kind: type[T],
        seconds: float | None = None,
    ) -> T:
        """The answer to a request, within so many seconds in all. Raises Unreachable or Rejected."""
        body = None if request is None else msgspec.json.encode(request)
        try:
            async with asyncio.timeout(self._seconds if seconds is None else seconds):
                status, said = await self._send(method, path, body)
        except TimeoutError as error:
            raise Unreachable(f"{self.where} did not answer in time") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Unreachable(f"{self.where}: {error or type(error).__name__}") from error
        if status != 200:
            raise self._fault(status, said)
        try:
            return msgspec.json.decode(said, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Unreachable(f"{self.where} answered with something else: {error}") from error

    async def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """The status and the body of the answer, which is not read beyond its limit."""
        headers = {"Content-Type": "application/json"} if body else {}
        async with self._http.stream(method, path, content=body, headers=headers) as answer:
            said = bytearray()
            async for part in answer.aiter_bytes():
                said += part
                if len(said) > LONGEST_ANSWER:
                    raise Unreachable(f"{self.where} answered with more than {LONGEST_ANSWER} bytes")
            return answer.status_code, bytes(said)

    def _fault(self, status: int, said: bytes) -> MemoryFault:
        try:
            told = msgspec.json.decode(said, type=FaultAnswer).error
            code, message = told.code, told.message
        except (msgspec.MsgspecError, RecursionError):
            code, message = f"http_{status}", "the answer is not a memory server's"
        if status >= 500 or status in (408, 429):
            return Unreachable(f"{self.where}: {message} ({code})")
        return Rejected(status, code, message)
