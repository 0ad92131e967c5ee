"""Small files are there whole or not at all, and a refusal says which."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from sf import files


def test_a_disk_that_refuses_is_told_with_the_path_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.put(path, "whole")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="too large") as refused:
            files.put(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "whole"


def test_what_was_swapped_for_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files.sync_path(tmp_path / "pipe")
    files.sync_all(tmp_path, ["pipe"])
    assert (tmp_path / "pipe").is_fifo(), "it is left as it is"
