"""What one check of `sf doctor` answers."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["pass", "warn", "fail"]


class Check(msgspec.Struct, frozen=True):
    """One check's answer."""

    name: str
    verdict: Verdict
    detail: str
