"""`recall`, `retain`, `stats`: the memory by hand."""

from __future__ import annotations

import sys

import click
import msgspec

from singularity_memory import wire
from singularity_memory.callers import Caller
from singularity_memory.cli.options import Place, place_options
from singularity_memory.cli.reach import with_caller
from singularity_memory.errors import BadRequest
from singularity_memory.model import Answer, Draft, Quality


@click.command()
@click.argument("bank")
@click.argument("query", nargs=-1, required=True)
@click.option("-k", "--top-k", type=click.IntRange(1, wire.MOST_RESULTS), default=5, show_default=True)
@click.option(
    "--filter", "filters", multiple=True, metavar="KEY=VALUE", help="Only what has this; repeatable."
)
@click.option("--tag", "tags", multiple=True, help="Only what has this tag; repeatable.")
@click.option("--accurate", is_flag=True, help="Take more time.")
@click.option("--deadline-ms", type=click.FloatRange(0, wire.LONGEST_DEADLINE_MS))
@click.option("--json", "as_json", is_flag=True, help="The whole answer, with the parts of each score.")
@place_options
def recall(
    place: Place,
    bank: str,
    query: tuple[str, ...],
    top_k: int,
    filters: tuple[str, ...],
    tags: tuple[str, ...],
    accurate: bool,
    deadline_ms: float | None,
    as_json: bool,
) -> None:
    """Find what BANK knows about QUERY, by words and by meaning.

    \b
      singularity-memory recall global/coding "why do the database tests collide?"
      singularity-memory recall global/coding parse_config --filter collection=anti_patterns --json
    """
    quality: Quality = "accurate" if accurate else "fast"
    request = _checked(
        wire.RecallRequest(bank, " ".join(query), top_k, _filter(filters, tags), quality, deadline_ms)
    )

    async def work(caller: Caller) -> Answer:
        reply = await caller.call(request)
        assert isinstance(reply, Answer)
        return reply

    answer = with_caller(place, work, writes=False)
    if as_json:
        _say_json(answer)
        return
    for hit in answer.entries:
        click.echo(_printable(f"{hit.score:.3f}  {hit.id}  {' '.join(hit.tags)}".rstrip()))
        for line in hit.content.strip().splitlines():
            click.echo(f"    {_printable(line)}")
    if not answer.entries:
        click.echo("nothing found", err=True)
    if answer.degraded:
        click.echo(f"degraded: {answer.reason}", err=True)


@click.command()
@click.argument("bank")
@click.argument("content", nargs=-1)
@click.option("--tag", "tags", multiple=True, help="A tag such as area:parser; repeatable.")
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Metadata; repeatable.")
@click.option("--document-id", default="", help="A name of its own; the same name again updates the entry.")
@click.option("--json", "as_json", is_flag=True, help="What became of it, as JSON.")
@place_options
def retain(
    place: Place,
    bank: str,
    content: tuple[str, ...],
    tags: tuple[str, ...],
    metadata: tuple[str, ...],
    document_id: str,
    as_json: bool,
) -> int:
    """Keep CONTENT in BANK; without CONTENT, what comes on standard input. 1 when it is refused.

    \b
      singularity-memory retain global/coding "Run the database tests with two workers." --tag area:tests
      git log -1 --format=%B | singularity-memory retain project/app --meta kind=decision
    """
    text = " ".join(content) if content else sys.stdin.read()
    draft = Draft(text, document_id, tags, dict(_pair(word) for word in metadata))
    request = _checked(wire.RetainRequest(bank, [draft]))

    async def work(caller: Caller) -> wire.RetainAnswer:
        reply = await caller.call(request)
        assert isinstance(reply, wire.RetainAnswer)
        return reply

    answer = with_caller(place, work)
    (kept,) = answer.entries
    if as_json:
        _say_json(answer)
    elif kept.status == "refused":
        click.echo(f"refused: {kept.reason}", err=True)
    else:
        click.echo(f"{kept.status} {kept.id}")
    return 1 if kept.status == "refused" else 0


@click.command()
@click.option("--json", "as_json", is_flag=True)
@place_options
def stats(place: Place, as_json: bool) -> None:
    """What every bank holds: entries, warnings among them, entries without vectors, and their states."""

    async def work(caller: Caller) -> wire.BanksAnswer:
        reply = await caller.call(wire.BanksRequest())
        assert isinstance(reply, wire.BanksAnswer)
        return reply

    answer = with_caller(place, work, writes=False)
    if as_json:
        _say_json(answer)
        return
    for bank in answer.banks:
        states = " ".join(f"{name}={number}" for name, number in sorted(bank.maturity.items()))
        click.echo(f"{bank.bank}  entries={bank.entries} unembedded={bank.unembedded} {states}".rstrip())
    if not answer.banks:
        click.echo("no banks yet", err=True)


def _printable(line: str) -> str:
    """A line that moves no cursor and sets no colour, whoever wrote it."""
    return "".join(letter if letter.isprintable() or letter == "\t" else " " for letter in line)


def _filter(filters: tuple[str, ...], tags: tuple[str, ...]) -> dict[str, wire.FilterValue]:
    found: dict[str, wire.FilterValue] = dict(_pair(word) for word in filters)
    return {**found, "tags": list(tags)} if tags else found


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{word!r} is not KEY=VALUE")
    return key, value


def _checked(request: wire.RecallRequest | wire.RetainRequest) -> wire.Request:
    """The same request, held to the limits that a server would hold it to."""
    try:
        found: wire.Request = msgspec.convert(msgspec.to_builtins(request), type(request))
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error
    return found


def _say_json(answer: msgspec.Struct) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
