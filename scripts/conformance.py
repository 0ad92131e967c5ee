"""Write docs/conformance.md: every item of the specification's checklist and the tests that prove it.

The tests say it themselves, by `@pytest.mark.conforms("C-03", …)`; they are read, not run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
GROUPS = {
    "C": "Core",
    "K": "Knowledge",
    "R": "Model routing",
    "A": "Persistent agents",
    "E": "Extensions",
}
ITEMS: dict[str, str] = {
    "C-01": "workflow templates, unknown fields refused",
    "C-02": "ten phases, typed refusal of wrong transitions",
    "C-03": "phase persisted first, announced after",
    "C-04": "eleven attempt states, canceled is not failed",
    "C-05": "continuation turns carry guidance only",
    "C-06": "unknown prompt variables stop the start",
    "C-07": "attempt and error told on retries only",
    "C-08": "questions answered softly or failed, never stalled",
    "C-09": "context compacts, halts, and is persisted",
    "C-10": "tokens counted by absolute totals",
    "C-11": "compaction through memory",
    "C-12": "supervisor checks speak through the bus",
    "C-13": "circuit breaker per model",
    "C-14": "unavailable model aborts at once",
    "C-15": "the eight hook events",
    "C-16": "unit result as JSON on stdin",
    "C-17": "post-unit hooks in order, refusal aborts",
    "C-18": "one shape for tool responses",
    "C-19": "unknown tools answered, session goes on",
    "C-20": "doc sync after merge, can be switched off",
    "C-21": "safe workspace names",
    "C-22": "path containment segment by segment",
    "C-23": "workspace lifecycle hooks",
    "C-24": "start-up cleans up what was left",
    "C-25": "live configuration reload",
    "C-26": "concurrency caps per phase",
    "C-27": "blocked units wait without backoff",
    "C-28": "priority order",
    "C-29": "prompt continuation after a normal end",
    "C-30": "exponential backoff with a cap",
    "C-31": "structured log lines, long values cut",
    "C-32": "log rotation, single lines, no stderr",
    "C-33": "trace spans buffered, none dropped",
    "C-34": "intent chapters",
    "C-35": "typed error codes, no text matching",
    "C-36": "schedule rebuilt from the rows",
    "C-37": "public names have docstrings",
    "C-38": "vault secret references",
    "C-39": "review in chunks of 300 lines",
    "C-40": "archive by atomic rename",
    "C-41": "no external tracker",
    "C-42": "three sources of units",
    "C-43": "crash recovery from the last phase",
    "C-44": "process lock, stale ones taken over",
    "C-45": "doc sync inside the merge phase",
    "C-46": "no knowledge in the orchestration database",
    "C-47": "atomic claims",
    "C-48": "runs belong to unit or agent",
    "C-49": "attempt and run row together",
    "C-50": "cancel only by operator or supervisor",
    "C-51": "failed retains are queued",
    "C-52": "workflow choice, pinned at planting",
    "C-53": "acceptance halts until a person answers",
    "C-54": "ends of an agent run",
    "C-55": "errors told on first turns only",
    "C-56": "one lock per project",
    "C-57": "canonical directory layout",
    "C-58": "ULID keys, soft deletion",
    "C-59": "runs outlive what they ran for",
    "C-60": "time limit per hook type",
    "C-61": "reassess: replan, abandon or escalate",
    "C-62": "phase changes cannot be vetoed",
    "C-63": "review in three passes",
    "C-64": "lost SSH workers cleaned up",
    "C-65": "agent compaction keeps what matters",
    "C-66": "hook decisions outrank auto-approve",
    "C-67": "slices merge in order, one at a time",
    "C-68": "doc sync ends the last coding phase",
    "C-69": "money in whole micro-dollars",
    "C-70": "blockers record how they were resolved",
    "C-71": "workflow content pinned by hash",
    "C-72": "project hash",
    "C-73": "drift of session settings shown",
    "C-74": "long errors cut, kept whole beside",
    "C-75": "SSH hosts verified",
    "C-76": "acceptance has no time limit",
    "C-77": "HTTP interface needs its token",
    "C-78": "doctor's exit code and report",
    "C-79": "trace files say their version",
    "C-80": "trace index",
    "C-81": "turn outcome markers",
    "C-82": "handoff by capability",
    "C-83": "plaintext keys refused",
    "C-84": "gate script protocol",
    "C-85": "gate retries counted apart",
    "C-86": "plan file validated before leaving plan",
    "C-87": "memory interface and its mirror",
    "C-88": "tools registered with the agent",
    "C-89": "every operator command exists",
    "C-90": "capability index",
    "C-91": "trace archive moves are recoverable",
    "C-92": "versioning policy",
    "C-93": "rate-limit data only shown",
    "C-94": "one knowledge backend",
    "C-95": "embedded memory by default",
    "C-96": "generated memory client",
    "K-01": "memory tiers",
    "K-02": "project and global banks",
    "K-03": "anti-patterns never decay",
    "K-04": "pattern maturation",
    "K-05": "confidence decay",
    "K-06": "work goes on without memory",
    "K-07": "deep analysis at init",
    "R-01": "three tiers, phases mapped to them",
    "R-02": "reasoning tier thinks",
    "R-03": "choice within a tier by score",
    "R-04": "complexity upgrade",
    "R-05": "human ratings",
    "A-01": "agent tables",
    "A-02": "memory blocks in the prompt",
    "A-03": "core memory tools",
    "A-04": "agent states",
    "A-05": "append-only inbox",
    "A-06": "messages wake their receiver",
    "A-07": "waiting for replies has a limit",
    "A-08": "handoff",
    "A-09": "budget and recovery per agent",
    "A-10": "cost per agent",
    "E-01": "HTTP observability",
    "E-02": "SSH workers",
    "E-03": "durable retry queue",
    "E-04": "agents refine their plan",
    "E-05": "plugin interfaces",
}


def markers(file: Path) -> Iterator[tuple[str, str]]:
    """The (item, test) pairs that a test file claims."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.conforms":
                for argument in decorator.args:
                    yield str(ast.literal_eval(argument)), node.name


def collect(tests: Path) -> dict[str, list[str]]:
    """The tests that prove each item, as `file::test`. Raises ValueError for an item that does not exist."""
    proofs: dict[str, list[str]] = {item: [] for item in ITEMS}
    for file in sorted(tests.rglob("test_*.py")):
        for item, test in markers(file):
            name = f"{file.relative_to(tests).as_posix()}::{test}"
            if item not in proofs:
                raise ValueError(f"{name} claims {item!r}, which is no item of the checklist")
            proofs[item].append(name)
    return {item: sorted(set(names)) for item, names in proofs.items()}


def page(proofs: dict[str, list[str]]) -> str:
    """docs/conformance.md."""
    proven = sum(bool(names) for names in proofs.values())
    lines = [
        "# Conformance",
        "",
        f"Which tests prove which item of the checklist: {proven} of {len(proofs)} items have one. "
        "Written by `make conformance`.",
    ]
    for letter, title in GROUPS.items():
        lines += ["", f"## {title}", "", "| item | what | proven by |", "|---|---|---|"]
        for item, names in proofs.items():
            if item.startswith(letter):
                shown = "<br>".join(f"`{name}`" for name in names) or "—"
                lines.append(f"| {item} | {ITEMS[item]} | {shown} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page; with --check, only say whether it is up to date."""
    text = page(collect(ROOT / "tests"))
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not fresh:
            print("docs/conformance.md is stale: run make conformance", file=sys.stderr)
        return 0 if fresh else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
