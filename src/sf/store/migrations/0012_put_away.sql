-- What has ended and whose worktree is still to be seen to: asked with every claim, and mostly nothing.
CREATE INDEX units_to_put_away ON units(archived_at)
  WHERE archived_at IS NOT NULL AND wound_up_at IS NULL AND base_commit IS NOT NULL;

-- What was called off and still runs is found by its unit; runs that have not ended are few, and one index on a
-- table that every run writes is less.
CREATE INDEX units_called_off ON units(claim_holder) WHERE phase_status = 'canceled' AND claim_holder IS NOT NULL;
DROP INDEX runs_live;
