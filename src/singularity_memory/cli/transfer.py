"""`export` and `import`: a bank as lines of JSON, with every entry's history."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import click
import msgspec

from singularity_memory import lines, wire
from singularity_memory.callers import Caller
from singularity_memory.cli.options import Place, place_options
from singularity_memory.cli.reach import with_caller
from singularity_memory.embedders.factory import Choice
from singularity_memory.errors import BadRequest

_MOST_CHARACTERS = 1_000_000
"""Of one portion: whatever the letters, its JSON is well below what a server takes at once."""


@click.command()
@click.argument("bank")
@place_options
def export(place: Place, bank: str) -> None:
    """Write every entry of BANK to standard output, one line of JSON each.

    \b
      singularity-memory export global/coding > coding.jsonl
    """

    async def work(caller: Caller) -> None:
        after: int | None = 0
        while after is not None:
            part = await caller.call(wire.ExportRequest(bank, after))
            assert isinstance(part, wire.ExportAnswer)
            for line in part.lines:
                click.echo(msgspec.json.encode(line))
            after = part.next

    with_caller(place._replace(embedder=Choice("none")), work, writes=False)


@click.command("import")
@click.argument("bank")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="The counts as JSON.")
@place_options
def import_(place: Place, bank: str, file: Path | None, as_json: bool) -> None:
    """Bring the lines of FILE, or of standard input, into BANK. A line is what `export` writes, or plain
    JSON with `content` and, if you like, `tags`, `metadata` and `document_id`.

    Entries that are there already are updated. What is refused is said on standard error and left out.

    \b
      singularity-memory import global/coding coding.jsonl
    """

    async def work(caller: Caller) -> Counter[str]:
        counts: Counter[str] = Counter()
        with _opened(file) as source:
            for portion in _portions(source):
                reply = await caller.call(wire.ImportRequest(bank, portion))
                assert isinstance(reply, wire.ImportAnswer)
                counts.update(one.status for one in reply.entries)
                for one in reply.entries:
                    if one.status == "refused":
                        click.echo(f"refused {one.document_id[:16]}: {one.reason}", err=True)
        return counts

    counts = with_caller(place, work)
    if as_json:
        click.echo(msgspec.json.encode(counts))
    else:
        click.echo(", ".join(f"{counts[status]} {status}" for status in ("stored", "updated", "refused")))


def _opened(file: Path | None) -> TextIO:
    """A file, or standard input; what is no UTF-8 is found with its line, where it is parsed."""
    place = file or sys.stdin.fileno()
    return open(place, encoding="utf-8-sig", errors="surrogateescape", closefd=file is not None)


def _portions(source: Iterable[str]) -> Iterator[list[lines.Line]]:
    """Parsed lines, as many at once as a request may carry; those before a bad one are given all the same."""
    portion: list[lines.Line] = []
    size = 0
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        if portion and (len(portion) == wire.MOST_ENTRIES or size + len(line) > _MOST_CHARACTERS):
            yield portion
            portion, size = [], 0
        try:
            portion.append(lines.parsed(line))
        except BadRequest as error:
            if portion:
                yield portion
            raise BadRequest(f"line {number}, and those before it are in: {error.message}") from error
        size += len(line)
    if portion:
        yield portion
