"""One way to act: the mediator, the sandbox, the judging of commands and of diffs."""
