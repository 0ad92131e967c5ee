"""`sf demo`: a small real project, a goal, and a scripted model under the real turn loop."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import msgspec

from sf.app import planning
from sf.app.initialise import initialise
from sf.errors import BadUsage
from sf.paths import Project, sf_home
from sf.workspaces.git import Git, Identity

GOAL = "Give textkit word statistics, slugs and a command line"
_ORIGIN = "https://demo.invalid/textkit.git"
_HERE = Path(__file__).parent


class Stage(msgspec.Struct, frozen=True):
    """The demo's project, ready to run."""

    project: Project
    goal: str

    def afterwards(self) -> list[str]:
        """What to look at next."""
        root, sf = self.project.root, _command()
        return [
            "The model was scripted: its lines are in .sf/playbooks/demo.toml. All else was real: git,",
            "worktrees, the sandbox, the gates, the three passes of each review, the merges. Look around:",
            f"  cd {root}",
            "  git log --graph --oneline          the merged commits",
            "  python3 -m unittest discover -s tests -t .      its own tests",
            "  python3 -m textkit stats README.md    what was built",
            f"  {sf} history                         what ended, and what it cost",
            f"  {sf} why task/m1/s1/t2               the task whose gate failed first",
            f"  {sf} why slice/m1/s2                 the slice whose review asked for a change",
            f"  {sf} memory recall words             what was learned; a second demo is told of it",
            "With a real model, in your own repository:",
            "  export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, or any OpenAI-compatible server: see README)",
            f'  {sf} init && {sf} plan "your goal" && {sf} auto',
        ]


def _command() -> str:
    """How the person who reads this can call sf."""
    return "sf" if shutil.which("sf") else str(Path(sys.argv[0]).absolute())


def prepare(folder: Path | None) -> Stage:
    """Make the project, initialise sf in it, and state the goal."""
    root = _folder(folder)
    asyncio.run(_make_repository(root))
    initialise(root)
    project = Project(root=root, home=sf_home())
    _use_script(project)
    planning.plan(project, GOAL)
    return Stage(project, GOAL)


def _folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="sf-demo-")).resolve()
    root = folder.resolve()
    if root.exists() and any(root.iterdir()):
        raise BadUsage(f"{root} is not empty", hint="name a new folder")
    root.mkdir(parents=True, exist_ok=True)
    return root


async def _make_repository(root: Path) -> None:
    for name, content in tomllib.loads((_HERE / "project.toml").read_text(encoding="utf-8"))["files"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    git, git_dir = Git(), root / ".git"
    await git.run("init", "--quiet", "--initial-branch=main", "--template=", git_dir=git_dir, work_tree=root)
    await git.run("add", "--all", git_dir=git_dir, work_tree=root)
    identity = Identity("sf demo", "demo@localhost")
    await git.run(
        "commit",
        "--quiet",
        "-m",
        "textkit: split text into words",
        git_dir=git_dir,
        work_tree=root,
        identity=identity,
    )
    # Never contacted: it gives every demo the same bank, so that a second one knows what the first learned.
    await git.run("remote", "add", "origin", _ORIGIN, git_dir=git_dir, work_tree=root)


def _use_script(project: Project) -> None:
    """Route every tier to the demo's playbook."""
    playbooks = project.dot / "playbooks"
    playbooks.mkdir(parents=True, exist_ok=True)
    (playbooks / "demo.toml").write_text(
        (_HERE / "playbook.toml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    lines = project.config.read_text(encoding="utf-8").splitlines()
    scripted = ['models = ["script:demo"]' if line.startswith("models = ") else line for line in lines]
    project.config.write_text("\n".join(scripted) + "\n", encoding="utf-8")
