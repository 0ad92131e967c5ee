"""The command line: commands loaded when they are called; whatever goes wrong is one line on stderr."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from singularity_memory.errors import MemoryFault, Mistake

PROGRAM = "singularity-memory"
COMMANDS: dict[str, str] = {
    "serve": "singularity_memory.cli.serve:serve",
    "recall": "singularity_memory.cli.entries:recall",
    "retain": "singularity_memory.cli.entries:retain",
    "import": "singularity_memory.cli.transfer:import_",
    "export": "singularity_memory.cli.transfer:export",
    "stats": "singularity_memory.cli.entries:stats",
    "token": "singularity_memory.cli.token:token",
    "mcp": "singularity_memory.cli.mcp:mcp",
}
SUMMARIES: dict[str, str] = {
    "serve": "Serve a memory over HTTP and MCP.",
    "recall": "Find what a bank knows about something.",
    "retain": "Keep something in a bank.",
    "import": "Bring exported entries into a bank.",
    "export": "Write a bank's entries as lines of JSON.",
    "stats": "What every bank holds.",
    "token": "Add, list and revoke the tokens of a server.",
    "mcp": "Speak MCP over standard input and output.",
}


class Commands(click.Group):
    """Loads a command's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load one command."""
        place = COMMANDS.get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def program() -> None:
    """A memory for agents: banks of entries, kept and recalled by words and by meaning, offline.

    \b
    Alone, on a folder:
      singularity-memory retain --data ~/memory global/coding "Run the tests with two workers."
      singularity-memory recall --data ~/memory global/coding "how do I run the tests?"
    As a server, for any agent tool:
      singularity-memory serve --data ~/memory
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command: 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    try:
        result = program.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except MemoryFault as fault:
        return _complain(f"{fault.message} [{fault.code}]", 2 if isinstance(fault, Mistake) else 1)
    except BrokenPipeError:
        # What reads our output has gone; the interpreter must not try to write to it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), 1)


def _complain(line: str, code: int) -> int:
    print(f"{PROGRAM}: {' '.join(line.split())}", file=sys.stderr)
    return code
