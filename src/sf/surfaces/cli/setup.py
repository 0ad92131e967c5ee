"""`sf init` and `sf demo`."""

from __future__ import annotations

from pathlib import Path

import click

from sf.surfaces.cli.speech import Speech


@click.command()
@click.option("--quick", is_flag=True, help="Only what is needed to start.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def init(speech: Speech, quick: bool, as_json: bool) -> int:
    """Set sf up in this repository: configuration, workflows, gates for what it detects.

    A second run changes nothing.
    """
    from sf.app.initialise import initialise

    done = initialise(Path.cwd())
    if speech.answer(done, as_json=as_json):
        return 0
    speech.say(f"languages: {', '.join(done.stack.languages) or 'none recognised'}")
    speech.say(f"tests:     {done.stack.tests or 'none found; without a gate nothing is merged'}")
    speech.say(f"lint:      {done.stack.lint or 'none found'}")
    if done.written:
        speech.say("written:   " + ", ".join(f".sf/{name}" for name in done.written))
    else:
        speech.say("everything was there already; nothing was changed")
    if done.unwired:
        speech.say(f"new since .sf/config.toml was written, and run by no gate: {done.unwired}")
        speech.say("→ write a script in .sf/gates/ that runs it, and name it in [harness.gates]")
    speech.say('→ sf doctor checks keys, gates and sandbox; then sf plan "a goal" and sf auto')
    return 0


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
