"""Git, worktrees and path containment: every git process that sf starts is started here."""
