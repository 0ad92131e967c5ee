"""What of the memory is not documented fails here; and it imports nothing from sf."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import singularity_memory
from singularity_memory.cli.main import COMMANDS
from singularity_memory.errors import MemoryFault
from singularity_memory.operations import OPERATIONS
from singularity_memory.server.faults import status
from singularity_memory.server.limits import Limits

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "singularity_memory"
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")


def _faults(kind: type[MemoryFault]) -> list[type[MemoryFault]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _faults(child))]


def test_every_code_command_limit_and_request_is_on_the_page() -> None:
    for module in pkgutil.walk_packages(singularity_memory.__path__, "singularity_memory."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert {kind.code for kind in _faults(MemoryFault) if f"`{kind.code}`" not in PAGE} == set()
    assert {name for name in COMMANDS if f"`{name}`" not in PAGE and f"memory {name}" not in PAGE} == set()
    assert {name for name in Limits.__struct_fields__ if f"`{name}`" not in PAGE} == set()
    assert {one.path for one in OPERATIONS if f"`{one.method} {one.path}`" not in PAGE} == set()


def test_every_code_is_its_own_and_a_mistake_is_never_the_servers() -> None:
    kinds = _faults(MemoryFault)
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert status(MemoryFault("x")) == 500


def test_it_imports_nothing_from_sf() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name == "sf" or name.startswith("sf.")], file
