-- When a person had the unit's commits reverted: it is no longer done.
ALTER TABLE units ADD COLUMN reverted_at INTEGER;
CREATE INDEX units_reverted ON units(reverted_at) WHERE reverted_at IS NOT NULL;

-- SQLite cannot change a CHECK; nothing refers to this table, so it is made anew.
CREATE TABLE evidence_widened (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  run_id TEXT NOT NULL,                      -- empty where no run was at work: a person's revert
  kind TEXT NOT NULL CHECK (kind IN ('gate','review','merge','claim','revert')),
  tree TEXT,
  commit_id TEXT,
  summary TEXT NOT NULL,
  recorded_at INTEGER NOT NULL
);
INSERT INTO evidence_widened (id, unit_id, run_id, kind, tree, commit_id, summary, recorded_at)
SELECT id, unit_id, run_id, kind, tree, commit_id, summary, recorded_at FROM evidence;
DROP TABLE evidence;
ALTER TABLE evidence_widened RENAME TO evidence;
CREATE INDEX evidence_by_unit ON evidence(unit_id);
