"""`mcp`: the memory as an MCP server over standard input and output."""

from __future__ import annotations

import asyncio

import click

from singularity_memory.cli.options import Place, place_options


@click.command()
@place_options
def mcp(place: Place) -> None:
    """Speak MCP over standard input and output, for an agent tool that starts its servers itself.

    \b
    In the tool's configuration:
      {"mcpServers": {"memory": {"command": "singularity-memory", "args": ["mcp", "--data", "/srv/memory"]}}}
    """
    from singularity_memory.cli.reach import reach
    from singularity_memory.server.stdio import speak

    asyncio.run(speak(reach(place, lasting=True)))
