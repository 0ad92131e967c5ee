-- What has ended and whose worktree is still to be seen to: asked with every claim, and mostly nothing.
CREATE INDEX units_to_put_away ON units(archived_at)
  WHERE archived_at IS NOT NULL AND wound_up_at IS NULL AND base_commit IS NOT NULL;
