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
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx2.AsyncClient(
                base_url=url, headers=headers, timeout=seconds, trust_env=False, follow_redirects=False
            )
        except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
            raise Unreachable(f"{url}: {error}") from error

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
                answer = await self._http.request(
                    method, path, content=body, headers={"Content-Type": "application/json"} if body else {}
                )
        except TimeoutError as error:
            raise Unreachable(f"{self._http.base_url} did not answer in time") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Unreachable(f"{self._http.base_url}: {error or type(error).__name__}") from error
        if answer.status_code != 200:
            raise self._fault(answer)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError as error:
            raise Unreachable(f"{self._http.base_url} answered with something else: {error}") from error

    def _fault(self, answer: httpx2.Response) -> MemoryFault:
        try:
            told = msgspec.json.decode(answer.content, type=FaultAnswer).error
            code, message = told.code, told.message
        except msgspec.MsgspecError:
            code, message = f"http_{answer.status_code}", "the answer is not a memory server's"
        if answer.status_code >= 500 or answer.status_code in (408, 429):
            return Unreachable(f"{self._http.base_url}: {message} ({code})")
        return Rejected(answer.status_code, code, message)
