"""Every public name of sf has a docstring: the linter's rule is on, and it bites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def _lint(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "ruff"), "check", "--no-cache", *arguments],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.conforms("C-37")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""A module."""\n\n\ndef public() -> None:\n    pass\n', "D103"),
        ('"""A module."""\n\n\nclass Public:\n    pass\n', "D101"),
        ("VALUE = 1\n", "D100"),
    ],
)
def test_a_public_name_without_a_docstring_is_refused(text: str, rule: str) -> None:
    done = _lint("--stdin-filename", "src/sf/harness/fresh.py", "-", stdin=text)
    assert (done.returncode, rule in done.stdout) == (1, True)


@pytest.mark.conforms("C-37")
def test_sf_itself_keeps_the_rule() -> None:
    done = _lint("src")
    assert done.returncode == 0, done.stdout
