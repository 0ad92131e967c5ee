CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL CHECK (status IN ('idle','running','paused','interrupted','complete','failed')),
  integration_branch TEXT,
  detail TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE TABLE workflow_pins (
  hash TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  content TEXT NOT NULL,
  pinned_at INTEGER NOT NULL
);

CREATE TABLE units (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  parent_id TEXT REFERENCES units(id),
  type TEXT NOT NULL CHECK (type IN ('milestone','slice','task')),
  workflow TEXT NOT NULL,
  workflow_hash TEXT NOT NULL REFERENCES workflow_pins(hash),
  phase TEXT NOT NULL,
  phase_status TEXT NOT NULL CHECK (phase_status IN
    ('pending','running','succeeded','failed','canceled','interrupted')),
  attempt INTEGER NOT NULL DEFAULT 0,        -- runs so far; the fencing token of the current run
  run_allowance INTEGER NOT NULL DEFAULT 100,
  plan_version INTEGER NOT NULL DEFAULT 1,
  made_under INTEGER NOT NULL DEFAULT 1,     -- the container's plan_version that made this unit
  claim_holder TEXT,
  claim_until INTEGER,
  priority INTEGER,
  phase_rank INTEGER NOT NULL,               -- of `phase`; kept by the transition for the queue's index
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  metadata TEXT NOT NULL DEFAULT '{}',
  plan TEXT,                                 -- the accepted plan, JSON
  open_blockers INTEGER NOT NULL DEFAULT 0,
  open_children INTEGER NOT NULL DEFAULT 0,
  parent_ready INTEGER NOT NULL DEFAULT 1,
  lane_open INTEGER NOT NULL DEFAULT 1,
  lane_owner TEXT,                           -- of a slice: the task that owns its worktree
  due_at INTEGER,
  hold_kind TEXT,
  hold_detail TEXT NOT NULL DEFAULT '',
  reassess_reason TEXT,
  verdict TEXT CHECK (verdict IS NULL OR verdict IN ('success','abandoned')),
  worker_host TEXT,
  workspace TEXT,
  branch TEXT,
  base_commit TEXT,
  merge_parent TEXT,                         -- the integration commit that a conflict brought in
  archived_at INTEGER,
  wound_up_at INTEGER,                       -- of a terminal unit: its worktree, hooks and archive are done
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX units_to_wind_up ON units(archived_at) WHERE archived_at IS NOT NULL AND wound_up_at IS NULL;
CREATE INDEX units_by_parent ON units(parent_id);
-- What a tick reads, phase by phase up to each cap. A unit that cannot run is not in it.
CREATE INDEX units_ready ON units(phase_rank, COALESCE(priority, 1000000), created_at, id)
  WHERE phase_status IN ('pending','interrupted','failed') AND phase <> 'complete'
    AND archived_at IS NULL AND hold_kind IS NULL AND open_blockers = 0 AND open_children = 0
    AND parent_ready = 1 AND lane_open = 1 AND due_at IS NULL;
CREATE INDEX units_due ON units(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX units_running ON units(claim_until) WHERE phase_status = 'running';
CREATE INDEX units_held ON units(hold_kind) WHERE hold_kind IS NOT NULL;
CREATE INDEX units_open ON units(type) WHERE phase <> 'complete' AND phase_status <> 'canceled';

CREATE TABLE phase_transitions (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  from_phase TEXT NOT NULL,
  to_phase TEXT NOT NULL,
  reason TEXT,
  transitioned_at INTEGER NOT NULL
);
CREATE INDEX phase_transitions_by_unit ON phase_transitions(unit_id);

CREATE TABLE task_blockers (
  task_id TEXT NOT NULL REFERENCES units(id) ON DELETE CASCADE,
  blocked_by TEXT NOT NULL REFERENCES units(id) ON DELETE CASCADE,
  PRIMARY KEY (task_id, blocked_by)
) WITHOUT ROWID;
CREATE INDEX task_blockers_by_upstream ON task_blockers(blocked_by);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  run_kind TEXT NOT NULL CHECK (run_kind IN ('unit_attempt','agent_run')),
  unit_id TEXT REFERENCES units(id) ON DELETE SET NULL,
  agent_id TEXT,
  unit_id_snap TEXT,
  agent_name_snap TEXT,
  attempt INTEGER,
  phase TEXT,
  plan_version INTEGER NOT NULL DEFAULT 1,
  state TEXT NOT NULL DEFAULT 'preparing_workspace',
  worker_host TEXT,
  workspace TEXT,
  model TEXT,
  tree TEXT,                                 -- snapshot of the worktree at the end of the run
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  outcome TEXT CHECK (outcome IS NULL OR outcome IN
    ('success','failure','abandoned','canceled','interrupted','unit_timeout','turn_timeout','stalled')),
  error_code TEXT,
  detail TEXT NOT NULL DEFAULT '',
  turns INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micro_usd INTEGER NOT NULL DEFAULT 0,
  CHECK (
    (run_kind = 'unit_attempt' AND unit_id_snap IS NOT NULL AND agent_name_snap IS NULL AND attempt IS NOT NULL)
    OR
    (run_kind = 'agent_run' AND agent_name_snap IS NOT NULL AND unit_id_snap IS NULL AND attempt IS NULL)
  )
);
CREATE INDEX runs_by_unit ON runs(unit_id_snap, attempt);
CREATE INDEX runs_live ON runs(started_at) WHERE ended_at IS NULL;

CREATE TABLE turns (
  run_id TEXT NOT NULL REFERENCES runs(id),
  turn INTEGER NOT NULL,
  kind TEXT NOT NULL,
  model TEXT,
  marker TEXT,
  tool_calls INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micro_usd INTEGER NOT NULL DEFAULT 0,
  budget_used INTEGER NOT NULL,              -- the context budget after this turn
  budget_max INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, turn)
) WITHOUT ROWID;

CREATE TABLE messages (
  run_id TEXT NOT NULL REFERENCES runs(id),
  seq INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

CREATE TABLE attempt_ledger (
  unit_id TEXT NOT NULL REFERENCES units(id),
  plan_version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (unit_id, plan_version, kind, key)
) WITHOUT ROWID;

CREATE TABLE feedback (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  text TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  read_by_run TEXT
);
CREATE INDEX feedback_unread ON feedback(unit_id) WHERE read_by_run IS NULL;

CREATE TABLE gate_results (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  run_id TEXT,
  gate_name TEXT NOT NULL,
  passed INTEGER NOT NULL,
  exit_code INTEGER,
  attempt INTEGER NOT NULL,
  max_retries INTEGER NOT NULL,
  tree TEXT,
  clean INTEGER NOT NULL DEFAULT 0,          -- ran in a fresh checkout: nothing but the tree was there
  output TEXT,
  duration_ms INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL
);
CREATE INDEX gate_results_by_unit ON gate_results(unit_id);

CREATE TABLE evidence (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('gate','review','merge','claim')),
  tree TEXT,
  commit_id TEXT,
  summary TEXT NOT NULL,
  recorded_at INTEGER NOT NULL
);
CREATE INDEX evidence_by_unit ON evidence(unit_id);

CREATE TABLE session_blockers (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  event TEXT NOT NULL,
  unit_id TEXT,
  detail TEXT,
  created_at INTEGER NOT NULL,
  resolved_at INTEGER,
  resolved_by TEXT
);
CREATE INDEX session_blockers_open ON session_blockers(unit_id) WHERE resolved_at IS NULL;

CREATE TABLE intents (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  applied_at INTEGER,
  ok INTEGER,
  answer TEXT
);
CREATE INDEX intents_open ON intents(id) WHERE applied_at IS NULL;
