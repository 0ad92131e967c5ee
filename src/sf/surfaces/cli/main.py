"""The command line: commands found by name and loaded when they are called; errors on one line."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from sf import __version__
from sf.domain.excerpt import printable
from sf.errors import BadUsage, DiskUnusable, InvalidConfig, SfError
from sf.surfaces.cli import complaints
from sf.surfaces.cli.speech import Speech

_REFUSALS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)

COMMANDS: dict[str, str] = {
    "demo": "sf.surfaces.cli.setup:demo",
    "init": "sf.surfaces.cli.setup:init",
    "plan": "sf.surfaces.cli.goals:plan",
    "dispatch": "sf.surfaces.cli.goals:dispatch",
    "auto": "sf.surfaces.cli.drive:auto",
    "next": "sf.surfaces.cli.drive:next_",
    "pause": "sf.surfaces.cli.steer:pause",
    "resume": "sf.surfaces.cli.steer:resume",
    "abandon": "sf.surfaces.cli.steer:abandon",
    "reassess-resolve": "sf.surfaces.cli.steer:reassess_resolve",
    "uat-approve": "sf.surfaces.cli.steer:uat_approve",
    "uat-reject": "sf.surfaces.cli.steer:uat_reject",
    "merge-resolve": "sf.surfaces.cli.steer:merge_resolve",
    "force-clear": "sf.surfaces.cli.steer:force_clear",
    "attention": "sf.surfaces.cli.account:attention",
    "reply": "sf.surfaces.cli.account:reply",
    "revert": "sf.surfaces.cli.undo:revert",
    "rescue": "sf.surfaces.cli.undo:rescue",
    "status": "sf.surfaces.cli.look:status",
    "why": "sf.surfaces.cli.look:why",
    "history": "sf.surfaces.cli.look:history",
    "cost": "sf.surfaces.cli.account:cost",
    "memory": "sf.surfaces.cli.memory:memory",
    "doctor": "sf.surfaces.cli.care:doctor",
    "clean": "sf.surfaces.cli.care:clean",
    "session": "sf.surfaces.cli.care:session",
    "config": "sf.surfaces.cli.settings:config",
    "store": "sf.surfaces.cli.storage:store",
    "headless": "sf.surfaces.cli.headless:headless",
}

SUMMARIES: dict[str, str] = {
    "demo": "Watch a goal become merged commits, with no key and no network.",
    "init": "Set sf up in this repository.",
    "plan": "State a goal; sf decomposes it into slices and tasks.",
    "dispatch": "Run one ad-hoc prompt, or one unit out of turn.",
    "auto": "Run the autopilot until everything is done or waits for you.",
    "next": "Run one step and stop.",
    "pause": "Stop cleanly after the turns that are running.",
    "resume": "Lift a pause.",
    "abandon": "Call a unit off, with what is below it.",
    "reassess-resolve": "Answer a question that a unit waits for.",
    "uat-approve": "Accept a unit that waits for acceptance.",
    "uat-reject": "Refuse a unit that waits for acceptance.",
    "merge-resolve": "Try a merge again after you mended what held it.",
    "force-clear": "Clear a blocker without an answer.",
    "attention": "Everything that waits for you.",
    "reply": "Answer a question.",
    "revert": "Undo what a unit merged.",
    "rescue": "Find work again that was not merged.",
    "status": "The project at a glance.",
    "why": "Why a unit stands where it stands.",
    "history": "Units that have ended.",
    "cost": "What the models have cost.",
    "memory": "What earlier work taught: look at it, add to it, forget some of it.",
    "doctor": "Check that everything is in order; fix what rows break a rule.",
    "clean": "Tidy up: old traces, worktrees, snapshots, the database.",
    "session": "List the sessions, or end the present one.",
    "config": "Check or show the configuration.",
    "store": "Move the project's rows to another database.",
    "headless": "Any command as one JSON event per line.",
}


class Commands(click.Group):
    """Loads a command's module only when it is called; knows near misses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of a day's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load one command."""
        place = COMMANDS.get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say what was meant when a command is misspelt."""
        if args and args[0] not in COMMANDS:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "sf --help lists the commands"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sf", message="%(prog)s %(version)s")
@click.option("-C", "folder", type=click.Path(exists=True, file_okay=False), help="Run as if started there.")
@click.pass_context
def sf(ctx: click.Context, folder: str | None) -> None:
    """An autopilot for software engineering that you own.

    Start with `sf demo`. In your own repository: `sf init`, `sf plan "a goal"`, `sf auto`.
    """
    if folder:
        os.chdir(folder)
    if ctx.obj is None:
        ctx.obj = Speech()


def run(arguments: Sequence[str], speech: Speech | None = None) -> int:
    """Run a command; the exit code. Whatever goes wrong is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that is not UTF-8 is shown escaped rather than not at all.
            stream.reconfigure(errors="backslashreplace")
    try:
        result = sf.main(args=list(arguments), prog_name="sf", standalone_mode=False, obj=speech)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return 130
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        return _explain(_misuse(error))
    except SfError as error:
        return _explain(error)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:  # the outermost boundary: one line for the person, the rest for the log
        if isinstance(error, OSError) and error.errno in _REFUSALS:
            return _explain(_disk_trouble(error))
        where = complaints.keep_crash()
        _complain(f"{type(error).__name__}: {error} [internal] → {where}")
        return 1


def _misuse(error: click.ClickException) -> BadUsage:
    """What the parser refused; where something is missing, with the example its help ends in."""
    context = error.ctx if isinstance(error, click.MissingParameter) else None
    example = context.command.epilog if context is not None else None
    return BadUsage(error.format_message(), hint=example or "")


def _disk_trouble(error: OSError) -> DiskUnusable:
    named = f": {error.filename}" if error.filename else ""
    return DiskUnusable(f"{error.strerror}{named}", hint="mend that and run the command again")


def _explain(error: SfError) -> int:
    _complain(error.line())
    if isinstance(error, InvalidConfig):
        for problem in error.problems:
            print(f"  {problem}", file=sys.stderr)
    return error.exit_code


def _complain(line: str) -> None:
    print(f"sf: {printable(line)}", file=sys.stderr)
