"""A measurement in a process of its own, so that its memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def run_json(module: str, *arguments: str) -> Any:
    """What a module prints, as JSON; its last line counts."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1800,
    )
    return json.loads(done.stdout.splitlines()[-1])
