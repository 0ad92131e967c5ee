"""`python -m singularity_memory` and the `singularity-memory` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; the exit code."""
    from singularity_memory.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
