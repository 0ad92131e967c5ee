CREATE TABLE spend (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(id),
  unit_id TEXT NOT NULL,
  milestone_id TEXT NOT NULL,                -- the unit at the top: a milestone, or an ad-hoc task itself
  session_id TEXT NOT NULL,
  phase TEXT NOT NULL,
  model TEXT NOT NULL,
  estimate_micro_usd INTEGER NOT NULL,
  cost_micro_usd INTEGER,                    -- NULL while the request is under way
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  how TEXT CHECK (how IS NULL OR how IN ('answered','refused','cut','crashed')),
  opened_at INTEGER NOT NULL,
  settled_at INTEGER
);
CREATE INDEX spend_open ON spend(run_id) WHERE settled_at IS NULL;
CREATE INDEX spend_by_day ON spend(opened_at);

-- What each scope has spent and reserved, kept by the transactions that change it.
CREATE TABLE spend_accounts (
  scope TEXT NOT NULL CHECK (scope IN ('unit','milestone','session')),
  key TEXT NOT NULL,
  spent_micro_usd INTEGER NOT NULL DEFAULT 0,
  reserved_micro_usd INTEGER NOT NULL DEFAULT 0,
  allowance_micro_usd INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, key)
);
