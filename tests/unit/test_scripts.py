"""The project's own checks: import layers and the conformance page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def layers(tmp_path: Path, files: dict[str, str]) -> list[str]:
    """What check_layers says about a made-up tree."""
    for name, text in files.items():
        path = tmp_path / "src" / "sf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in (path.parent, tmp_path / "src" / "sf"):
            (folder / "__init__.py").touch()
    done = script("check_layers.py", str(tmp_path / "src"))
    lines = done.stdout.splitlines()
    assert done.returncode == (1 if lines else 0), done.stderr
    return lines


def test_the_product_keeps_its_layers() -> None:
    done = script("check_layers.py")
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("domain/a.py", "from sf.store import units"),
        ("domain/a.py", "import sf.config.schema"),
        ("store/a.py", "from sf.harness.turn import Dialogue"),
        ("tools/a.py", "from sf.policy import mediator"),
        ("providers/a.py", "import sf.tools.base"),
        ("routing.py", "from sf import policy"),
        ("harness/a.py", "from sf.review import gates"),
        ("review/a.py", "from sf.scheduler import loop"),
        ("scheduler/a.py", "from sf.app import compose"),
        ("app/a.py", "from sf.surfaces.cli import main"),
        ("surfaces/cli/a.py", "from sf.store import units"),
        ("surfaces/cli/a.py", "from sf.harness import turn"),
        ("harness/a.py", "from sf.testing import clock"),
        ("unheard_of.py", "from sf.domain import units"),
        ("domain/a.py", "from ..store import units"),
    ],
)
def test_an_import_that_points_up_is_named_with_its_place(tmp_path: Path, file: str, line: str) -> None:
    found = layers(tmp_path, {file: f'"""Doc."""\n\n{line}\n', "policy/x.py": "", "store/units.py": ""})
    assert len(found) == 1
    assert found[0].startswith(f"src/sf/{file}:3: ")


def test_imports_for_type_checkers_and_inside_functions_count(tmp_path: Path) -> None:
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sf.app import compose\n"
        "def f() -> None:\n    import sf.scheduler.loop\n"
    )
    found = layers(tmp_path, {"domain/a.py": text})
    assert [line.split(": ")[0] for line in found] == ["src/sf/domain/a.py:3", "src/sf/domain/a.py:5"]


def test_what_points_down_is_fine(tmp_path: Path) -> None:
    files = {
        "harness/a.py": "from sf.tools import base\nfrom sf.domain import units\nfrom sf.harness import b\n",
        "harness/b.py": "from sf.policy import mediator\n",
        "tools/base.py": "from sf import containment\n",
        "containment.py": "",
        "testing/a.py": "from sf.app import compose\nfrom sf.store import units\n",
        "surfaces/cli/a.py": "from sf.app import compose\nimport sf.errors\nfrom sf.surfaces.cli import b\n",
        "surfaces/cli/b.py": "",
        "__main__.py": "from sf.surfaces.cli.a import main\n",
    }
    assert layers(tmp_path, files) == []


def test_a_cycle_inside_a_package_is_found(tmp_path: Path) -> None:
    files = {
        "store/a.py": "from sf.store import b\n",
        "store/b.py": "from sf.store.c import x\n",
        "store/c.py": "def f() -> None:\n    from sf.store import a\n",
    }
    found = layers(tmp_path, files)
    assert len(found) == 1
    assert "cycle" in found[0]
    assert all(f"sf.store.{name}" in found[0] for name in "abc")


def test_the_conformance_page_is_up_to_date() -> None:
    done = script("conformance.py", "--check")
    assert done.returncode == 0, done.stderr


def test_the_memory_knows_nothing_of_sf(tmp_path: Path) -> None:
    memory = tmp_path / "src" / "singularity_memory"
    memory.mkdir(parents=True)
    (memory / "__init__.py").touch()
    (memory / "engine.py").write_text("from sf.domain import units\n")
    (said,) = layers(tmp_path, {"domain/units.py": "", "app/a.py": "from singularity_memory import engine\n"})
    assert said.endswith("singularity_memory imports nothing from sf, but sf.domain.units")
