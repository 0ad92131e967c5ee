"""`sf doctor --gates`: would the gates pass on the code as it is? Run as where a merge is proven."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sf.app.checks import Check
from sf.app.compose import sandbox_of
from sf.app.logs import log_of
from sf.app.trust import gates_of, load_trusted
from sf.config.schema import Config
from sf.domain.excerpt import one_line, unsteering
from sf.errors import EmptyRepository, SfError
from sf.harness.hooks import HookRunner
from sf.harness.workshop import branch_gone
from sf.observe.trace import Tracer
from sf.paths import Project
from sf.policy.sandbox import Completed, Sandbox
from sf.policy.search_path import users_environment
from sf.review import gates, places
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree, checkout_folder, discard

_LAST_LINES = 5


@dataclass(frozen=True)
class _Bench:
    """What a gate is run with, without an autopilot."""

    project: Project
    config: Config
    gate_sandbox: Sandbox
    hooks: HookRunner
    environment: Mapping[str, str]
    owned: OwnedRepository

    def readable(self) -> list[Path]:
        named = (Path(path).expanduser() for path in self.config.sandbox.readable)
        return [self.owned.objects, *named]


def try_gates(project: Project) -> list[Check]:
    """Run each configured gate once on the integration branch as it is; nothing is left behind."""
    try:
        return asyncio.run(_tried(project))
    except (SfError, OSError) as error:
        told = error.line() if isinstance(error, SfError) else str(error)
        return [Check("gates as run", "fail", f"could not be tried: {told}")]


async def _tried(project: Project) -> list[Check]:
    git = Git()
    user = await UserRepository.open(project.root, project.facade, git)
    config = await load_trusted(project, user)
    head = await user.head()
    if head.commit is None:
        raise EmptyRepository("the repository has no commit yet", hint="git commit something first")
    branch = config.harness.integration_branch or head.branch or ""
    commit = await user.branch_commit(branch) if branch else head.commit
    if commit is None:
        raise branch_gone(branch)
    with _folder(project) as folder, closing(Tracer(project.trace)) as tracer:
        owned = await OwnedRepository.open(folder / "repository.git", user, git)
        await owned.fetch(commit)
        hooks = HookRunner(project.root, {}, log_of(project, config), tracer, config.harness.hooks)
        sandbox = sandbox_of(project, config, "gate_profile")
        bench = _Bench(project, config, sandbox, hooks, users_environment(project.root), owned)
        return await _on_checkout(bench, folder / "checkout", commit)


@contextmanager
def _folder(project: Project) -> Iterator[Path]:
    """A folder for a repository and a checkout of its own; what a kill leaves, the next start puts away."""
    folder = project.worktrees / f".doctor-{secrets.token_hex(6)}"
    made = [path for path in (project.worktrees, project.worktrees.parent) if not path.exists()]
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        discard(folder)
        with suppress(OSError):
            for path in made:
                path.rmdir()


async def _on_checkout(bench: _Bench, folder: Path, commit: str) -> list[Check]:
    await checkout_folder(bench.owned, folder, commit)
    worktree = Worktree(bench.owned, folder, "doctor", disposable=True)
    variables = {
        "SF_PROJECT_ROOT": str(bench.project.root),
        "SF_HOME": str(bench.project.home),
        "SF_WORKSPACE": str(folder),
        "SF_PHASE": "merge",
        "SF_UNIT_TYPE": "slice",
    }
    checks = [
        Check("after_create", "fail", f"{failed} in the sandbox of the gates: {_last(output)}")
        for failed, output in await gates.set_up(bench, folder, variables)
    ]
    tree, before = await worktree.snapshot(), await worktree.strangers()
    scripts = list(dict.fromkeys(gates_of(bench.config)))
    for path in places.in_checkout(bench.project.root, scripts).values():
        done = await gates.carry_out(bench, path, folder, variables, {"verdict": "pending"})
        checks.append(_judged(gates.gate_name(path), done))
        await gates.undo(tree, worktree, before)
    return checks


def _judged(name: str, done: Completed) -> Check:
    if done.timed_out:
        return Check(
            "gates as run", "fail", f"{name} takes too long on the code as it is: {_last(done.output)}"
        )
    if done.exit_code == 3:
        return Check("gates as run", "pass", f"{name} says that it does not apply")
    if done.exit_code != 0:
        return Check("gates as run", "fail", f"{name} fails on the code as it is: {_last(done.output)}")
    return Check("gates as run", "pass", f"{name} passes on the code as it is")


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return one_line(unsteering(" | ".join(lines[-_LAST_LINES:])), 600) or "it said nothing"
