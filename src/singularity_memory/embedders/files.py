"""Model files inside installed packages: found without importing the package, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from singularity_memory.errors import ModelMissing, ModelTampered

_BLOCK = 1 << 20


def locate(package: str, path: str, sha256: str) -> Path:
    """The file of a package. Raises when the package is missing or the file is not the expected one."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"the package {package} with the embedding model is not installed")
    file = Path(next(iter(spec.submodule_search_locations))) / path
    if not file.is_file():
        raise ModelMissing(f"the package {package} has no {path}")
    if (found := digest(file)) != sha256:
        raise ModelTampered(f"{package}/{path} has the SHA-256 {found}, not {sha256}")
    return file


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    made = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            made.update(block)
    return made.hexdigest()
