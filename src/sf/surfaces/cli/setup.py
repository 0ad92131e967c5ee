"""`sf init` and `sf demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sf.errors import SfError
from sf.paths import Project, sf_home
from sf.surfaces.cli.scanning import Scanning
from sf.surfaces.cli.speech import Speech

if TYPE_CHECKING:
    from sf.app.initialise import Initialised


@click.command()
@click.option("--quick", is_flag=True, help="Skip the deep scan: only what is needed to start.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def init(speech: Speech, quick: bool, as_json: bool) -> int:
    """Set sf up in this repository: configuration, workflows, gates for what it detects; then scan it.

    A second run changes no configuration and scans anew. The findings are kept in .sf/survey.json.
    """
    from sf.app.initialise import initialise

    done = initialise(Path.cwd())
    if not as_json:
        _tell(speech, done)
    code = 0
    if not quick:
        try:
            done = _scan(speech, done, silent=as_json)
        except KeyboardInterrupt:
            done, code = msgspec.structs.replace(done, trouble="interrupted"), 130
    if speech.answer(done, as_json=as_json):
        return code
    if done.survey is not None and done.survey.files:
        speech.say("\n" + "\n".join(done.survey.summary()) + "\n")
    if done.remembered is not None and (done.remembered.count or done.remembered.trouble):
        number = "1 finding" if done.remembered.count == 1 else f"{done.remembered.count} findings"
        said = done.remembered.trouble or f"{number}: sf memory recall …"
        speech.say(f"remembered: {said}")
    if done.trouble:
        speech.say(f"no scan:   {done.trouble}; all else is set up, and sf init scans again")
    speech.say('→ sf doctor --gates checks keys and sandbox, tries the gates; then sf plan "a goal", sf auto')
    return code


def _tell(speech: Speech, done: Initialised) -> None:
    speech.say(f"languages: {', '.join(done.stack.languages) or 'none recognised'}")
    speech.say(f"tests:     {done.stack.tests or 'none found; without a gate nothing is merged'}")
    speech.say(f"lint:      {done.stack.lint or 'none found'}")
    if done.written:
        speech.say("written:   " + ", ".join(f".sf/{name}" for name in done.written))
    else:
        speech.say("everything was there already; nothing was changed")
    if done.needs:
        speech.say("installs:  gates run in a fresh worktree: what git ignores is not there, neither is what")
        speech.say(f"           {done.needs} has installed; install it with the hook after_create")
        speech.say("           → sf doctor --gates tries whether the gates pass there")
    for path in done.earlier:
        speech.say(f"an earlier sf project of this folder has left its work: git --git-dir={path} log --all")
    if done.unwired:
        speech.say(f"new since .sf/config.toml was written, and run by no gate: {done.unwired}")
        speech.say("→ write a script in .sf/gates/ that runs it, and name it in [harness.gates]")


def _scan(speech: Speech, done: Initialised, *, silent: bool) -> Initialised:
    """The deep scan. That it fails is told, and is no reason not to work here."""
    from sf.app.memories import remember_survey
    from sf.app.surveying import survey

    progress = Scanning(speech, silent=silent)
    try:
        project = Project(root=done.root.resolve(), home=sf_home())
        found = survey(project, progress)
        done = msgspec.structs.replace(done, survey=found)
        return msgspec.structs.replace(done, remembered=remember_survey(project, found))
    except (SfError, OSError) as error:
        line = error.line() if isinstance(error, SfError) else f"{error.strerror}: {error.filename}"
        return msgspec.structs.replace(done, trouble=line)
    finally:
        progress.close()


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Where to make the project (a new folder).")
@click.pass_obj
def demo(speech: Speech, folder: Path | None) -> int:
    """Watch a goal become merged commits, with a scripted model: no key, no network."""
    from sf.app.demo import prepare
    from sf.surfaces.cli.drive import drive

    stage = prepare(folder)
    speech.say(f"made a small project in {stage.project.root}")
    speech.say(f"goal: {stage.goal}\n")
    code = drive(stage.project, speech)
    if code == 0:
        speech.say()
        for line in stage.afterwards():
            speech.say(line)
    return code
