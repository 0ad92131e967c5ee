"""The operations, made from the server's document by `make generate`: not to be edited."""

from __future__ import annotations

from singularity_memory.client.connection import Connection
from singularity_memory.client.models import (
    Answer,
    BanksAnswer,
    EntryAnswer,
    ExportAnswer,
    ExportRequest,
    FeedbackRequest,
    ForgetAnswer,
    ForgetRequest,
    HealthAnswer,
    ImportAnswer,
    ImportRequest,
    RecallRequest,
    RetainAnswer,
    RetainRequest,
    ValidateRequest,
)


class Client(Connection):
    """Asks a memory server: one method for each of its operations."""

    async def retain(self, request: RetainRequest, *, seconds: float | None = None) -> RetainAnswer:
        """Keep entries in a bank."""
        return await self.ask("POST", "/v1/retain", request, RetainAnswer, seconds)

    async def recall(self, request: RecallRequest, *, seconds: float | None = None) -> Answer:
        """Find what a bank knows about something."""
        return await self.ask("POST", "/v1/recall", request, Answer, seconds)

    async def feedback(self, request: FeedbackRequest, *, seconds: float | None = None) -> EntryAnswer:
        """Say how a recalled entry served."""
        return await self.ask("POST", "/v1/feedback", request, EntryAnswer, seconds)

    async def validate(self, request: ValidateRequest, *, seconds: float | None = None) -> EntryAnswer:
        """Say that an entry still holds."""
        return await self.ask("POST", "/v1/validate", request, EntryAnswer, seconds)

    async def forget(self, request: ForgetRequest, *, seconds: float | None = None) -> ForgetAnswer:
        """Remove entries from a bank."""
        return await self.ask("POST", "/v1/forget", request, ForgetAnswer, seconds)

    async def export_entries(self, request: ExportRequest, *, seconds: float | None = None) -> ExportAnswer:
        """Read a bank's entries with their history, part by part."""
        return await self.ask("POST", "/v1/export", request, ExportAnswer, seconds)

    async def import_entries(self, request: ImportRequest, *, seconds: float | None = None) -> ImportAnswer:
        """Bring exported entries into a bank."""
        return await self.ask("POST", "/v1/import", request, ImportAnswer, seconds)

    async def banks(self, *, seconds: float | None = None) -> BanksAnswer:
        """What every bank holds."""
        return await self.ask("GET", "/v1/banks", None, BanksAnswer, seconds)

    async def health(self, *, seconds: float | None = None) -> HealthAnswer:
        """Whether the memory answers."""
        return await self.ask("GET", "/v1/health", None, HealthAnswer, seconds)
