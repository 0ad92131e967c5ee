"""Secrets: references in configuration, values only in memory."""

from __future__ import annotations

import os
import subprocess

from sf.errors import SecretUnavailable

_USUAL = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_TIMEOUT = 20.0
NO_KEY = "no-key"
"""What is sent to a server of the user's own that asks for none."""


def resolve(provider: str, reference: str, *, has_base_url: bool) -> str:
    """The key of a provider: from `$(command)`, else from its usual environment variable.

    A provider with a base_url and no key, such as Ollama, gets a placeholder.
    """
    if reference:
        return from_command(f"the key command of provider {provider!r}", reference)
    variable = _USUAL.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")
    value = os.environ.get(variable, "")
    if value:
        return value
    if has_base_url:
        return NO_KEY
    raise SecretUnavailable(
        f"no key for provider {provider!r}",
        hint=f'set {variable}, or [providers.{provider}] api_key = "$(command)" in ~/.sf/config.toml',
    )


def from_command(what: str, reference: str) -> str:
    """What the command of a `$(command)` prints. Raises SecretUnavailable, which says `what`."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", reference[2:-1]], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SecretUnavailable(f"{what} failed: {type(error).__name__}") from None
    value = done.stdout.strip()
    if done.returncode != 0 or not value:
        raise SecretUnavailable(
            f"{what} exited with {done.returncode} and printed {'nothing' if not value else 'something'}",
            hint="run it by hand",
        )
    return value
