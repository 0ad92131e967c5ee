"""What of `.sf/` git must not see: said in `.sf/.gitignore`, and again where no branch can take it away."""

from __future__ import annotations

import contextlib

from sf.workspaces.repository import UserRepository

_SEEN = (
    *(".gitignore", "config.toml", "plan.md"),
    *("workflows/", "workflows/**", "gates/", "gates/**", "hooks/", "hooks/**", "playbooks/", "playbooks/**"),
)

FILE = "\n".join(
    [
        "# What sf keeps here is state. Configuration, workflows, gates, hooks and plan.md may be committed.",
        "*",
        *(f"!{name}" for name in _SEEN),
        "",
    ]
)
"""The content of `.sf/.gitignore`."""

_EVERYWHERE = "\n".join(["/.sf/*", *(f"!/.sf/{name}" for name in _SEEN), ""])
_MARK = "# ^ sf's state, on every branch: .sf/.gitignore is there only where it is committed"


def keep_out(user: UserRepository) -> None:
    """Have git leave sf's state alone whatever is checked out: `git clean`, `git stash -u`, `git add -A`."""
    # A courtesy: where it cannot be had, all else works.
    with contextlib.suppress(OSError):
        user.exclude(_MARK, _EVERYWHERE)
