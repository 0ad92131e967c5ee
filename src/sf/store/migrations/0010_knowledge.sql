-- Lessons on their way to the memory: written with the work that taught them, gone once they are kept.
CREATE TABLE pending_retain (
  id TEXT PRIMARY KEY,
  bank TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_retry_at INTEGER NOT NULL,
  last_error TEXT,
  created_at INTEGER NOT NULL
);
CREATE INDEX pending_retain_due ON pending_retain(next_retry_at);

-- The mistakes that must be known even when the memory is away.
CREATE TABLE local_anti_patterns (
  id TEXT PRIMARY KEY,
  description TEXT NOT NULL,
  context TEXT NOT NULL,
  correct_path TEXT NOT NULL,
  source_unit TEXT,
  fingerprint TEXT,
  created_at INTEGER NOT NULL,
  synced_at INTEGER
);

-- Which entries a run was told of, so that what helped can be told to the memory.
CREATE TABLE recalls (
  run_id TEXT NOT NULL REFERENCES runs(id),
  unit_id TEXT NOT NULL,
  bank TEXT NOT NULL,
  entry_id TEXT NOT NULL,
  place INTEGER NOT NULL,
  PRIMARY KEY (run_id, entry_id)
);
CREATE INDEX recalls_by_unit ON recalls(unit_id);

-- What an agent was doing and why, in stretches.
CREATE TABLE chapters (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs(id),
  name TEXT NOT NULL,
  intent TEXT NOT NULL DEFAULT '',
  opened_at INTEGER NOT NULL,
  closed_at INTEGER,
  outcome TEXT,
  span_ids TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX chapters_by_unit ON chapters(unit_id);
