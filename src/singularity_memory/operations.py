"""What can be asked of a memory: one row each, from which the routes, the document and the tools are made."""

from __future__ import annotations

from typing import Literal, NamedTuple

from singularity_memory import wire

Scope = Literal["read", "write"]
Method = Literal["GET", "POST"]


class Operation(NamedTuple):
    """One thing to ask: its name everywhere, its place over HTTP, its types, and the scope it needs."""

    name: str
    method: Method
    path: str
    request: type[wire.Request]
    reply: type[wire.Reply]
    scope: Scope
    summary: str
    about: str


RETAIN = Operation(
    "retain",
    "POST",
    "/v1/retain",
    wire.RetainRequest,
    wire.RetainAnswer,
    "write",
    "Keep entries in a bank.",
    "Keeps knowledge that later work needs: a decision and its reason, a pitfall and how it was solved, how"
    " this project builds and tests. One fact an entry, in whole sentences, with the names a search would"
    " use. The same content again updates the entry. Secrets, junk and duplicates are refused, each with a"
    " reason. What is answered as stored or updated is on disk.",
)
RECALL = Operation(
    "recall",
    "POST",
    "/v1/recall",
    wire.RecallRequest,
    wire.RecallAnswer,
    "read",
    "Find what a bank knows about something.",
    "Finds entries by words and by meaning, best first, each with the parts of its score. Names, paths and"
    " error messages find exactly; plain questions find by meaning. An entry that is negative says what to"
    " avoid. `degraded` says that a part of the search was left out, and `reason` why.",
)
FEEDBACK = Operation(
    "feedback",
    "POST",
    "/v1/feedback",
    wire.FeedbackRequest,
    wire.EntryAnswer,
    "write",
    "Say how a recalled entry served.",
    "1 when the entry helped, -1 when it misled, 0 when it did neither. What helps rises and stays fresh;"
    " what misleads sinks, and after the third time it is a warning. `bank` may be left out.",
)
VALIDATE = Operation(
    "validate",
    "POST",
    "/v1/validate",
    wire.ValidateRequest,
    wire.EntryAnswer,
    "write",
    "Say that an entry still holds.",
    "For an entry that was checked against the code and is still true: it stops fading and begins anew."
    " `bank` may be left out.",
)
FORGET = Operation(
    "forget",
    "POST",
    "/v1/forget",
    wire.ForgetRequest,
    wire.ForgetAnswer,
    "write",
    "Remove entries from a bank.",
    "Removes for good the entries that are named by id or document_id, or that match the filter. For what is"
    " wrong or must not be kept; what is merely old fades by itself.",
)
EXPORT = Operation(
    "export_entries",
    "POST",
    "/v1/export",
    wire.ExportRequest,
    wire.ExportAnswer,
    "read",
    "Read a bank's entries with their history, part by part.",
    "For backups and for moving a bank; `import` takes what this gives. Vectors are made anew there.",
)
IMPORT = Operation(
    "import_entries",
    "POST",
    "/v1/import",
    wire.ImportRequest,
    wire.ImportAnswer,
    "write",
    "Bring exported entries into a bank.",
    "Entries keep their history; what the door refuses stays out. They are found by their words at once and"
    " by meaning when the server has embedded them.",
)
BANKS = Operation(
    "banks",
    "GET",
    "/v1/banks",
    wire.BanksRequest,
    wire.BanksAnswer,
    "read",
    "What every bank holds.",
    "The banks that the token may read, with how many entries each has and of what kind.",
)
HEALTH = Operation(
    "health",
    "GET",
    "/v1/health",
    wire.HealthRequest,
    wire.HealthAnswer,
    "read",
    "Whether the memory answers.",
    "Without a token only `ok` and, when it is not, why.",
)

OPERATIONS = (RETAIN, RECALL, FEEDBACK, VALIDATE, FORGET, EXPORT, IMPORT, BANKS, HEALTH)
BY_REQUEST = {operation.request: operation for operation in OPERATIONS}
