"""`serve`: a memory for every agent tool of this machine, or of a network."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import click

from singularity_memory.cli.options import choice, data_option, embedder_options

DEFAULT_PORT = 7843


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 chooses one."
)
@data_option
@embedder_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--allow-remote", is_flag=True, help="Needed to listen on an address that others can reach.")
@click.option("--allow-host", "hosts", multiple=True, help="Answer for this name in the Host header too.")
@click.option("--allow-origin", "origins", multiple=True, help="Answer web pages of this origin.")
@click.option(
    "--limit", "limits", multiple=True, metavar="NAME=NUMBER", help="Change a limit; docs/memory.md."
)
def serve(
    port: int,
    data: Path,
    store: str,
    embedder: str,
    embedder_model: str,
    embedder_url: str,
    host: str,
    allow_remote: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    limits: tuple[str, ...],
) -> None:
    """Serve a memory over HTTP and MCP until SIGTERM or Ctrl-C.

    Prints its address on one line when it is ready. The first token is in DATA/token; every request but
    /v1/health needs one. The interface is described at /openapi.json, and MCP is at /mcp.

    \b
      singularity-memory serve --port 7843 --data ~/memory
      curl -H "Authorization: Bearer $(cat ~/memory/token)" http://127.0.0.1:7843/v1/banks
    """
    if not _is_local(host):
        if not allow_remote:
            raise click.UsageError(f"{host} can be reached from elsewhere: say --allow-remote if you mean it")
        click.echo(
            "warning: listening beyond this machine, without encryption: put a TLS proxy before it", err=True
        )
    from singularity_memory.server import limits as server_limits
    from singularity_memory.server.process import Setting, serve

    setting = Setting(
        data=data.expanduser(),
        port=port,
        host=host,
        store=store,
        embedder=choice(embedder, embedder_model, embedder_url),
        hosts=(host, *hosts),
        origins=origins,
        limits=server_limits.changed(limits),
    )
    serve(setting, _say_ready)


def _say_ready(address: str, token: Path) -> None:
    click.echo(f"the first token is in {token}", err=True)
    click.echo(address)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
