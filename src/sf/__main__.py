"""`python -m sf` and the `sf` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; the exit code."""
    try:
        from sf.surfaces.cli import complaints
        from sf.surfaces.cli.main import run

        complaints.divert()
        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
