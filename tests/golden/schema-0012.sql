BEGIN TRANSACTION;
CREATE TABLE attempt_ledger (
  unit_id TEXT NOT NULL REFERENCES units(id),
  plan_version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (unit_id, plan_version, kind, key)
) WITHOUT ROWID;
INSERT INTO "attempt_ledger" VALUES('task/a1',1,'interruptions','execute',1);
INSERT INTO "attempt_ledger" VALUES('task/a2',1,'tries','execute',1);
INSERT INTO "attempt_ledger" VALUES('task/a3',1,'gate','check',1);
CREATE TABLE attention (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  unit_id TEXT,
  blocker_id TEXT REFERENCES session_blockers(id),
  kind TEXT NOT NULL,
  question TEXT NOT NULL,
  data TEXT NOT NULL DEFAULT '{}',
  default_answer TEXT,                       
  due_at INTEGER,
  created_at INTEGER NOT NULL,
  closed_at INTEGER,
  answer TEXT,
  answered_by TEXT
);
INSERT INTO "attention" VALUES('01M7H6QD86GE32FNN8GB8FFGC2','01M7H6QCNAEF3VH42TZ6HSNTWV','task/m1/s2/t1','01M7H6QD86GE32FNN8GB8FFGC1','blocked','which colour?','{}',NULL,NULL,1767225615000,NULL,NULL,NULL);
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
CREATE TABLE "evidence" (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  run_id TEXT NOT NULL,                      -- empty where no run was at work: a person's revert
  kind TEXT NOT NULL CHECK (kind IN ('gate','review','merge','claim','revert')),
  tree TEXT,
  commit_id TEXT,
  summary TEXT NOT NULL,
  recorded_at INTEGER NOT NULL
);
CREATE TABLE feedback (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  text TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  read_by_run TEXT
);
INSERT INTO "feedback" VALUES('01M7H6QE2BNYPBJ78HK91WQ3W8','task/a1','resumed_after_crash',1767225637000,NULL);
INSERT INTO "feedback" VALUES('01M7H6QE666XHT7EZ2PYQATZ76','task/a2','turn_failed: dropped',1767225641000,NULL);
INSERT INTO "feedback" VALUES('01M7H6QEEABTSZPXMTVDTP50JH','task/a3','gate check failed:
red',1767225647000,NULL);
INSERT INTO "feedback" VALUES('01M7H6QEGRGGM3EXVM0TDN86AE','task/a4','no',1767225649000,NULL);
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
  clean INTEGER NOT NULL DEFAULT 0,          
  output TEXT,
  duration_ms INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL
, script TEXT NOT NULL DEFAULT '');
CREATE TABLE intents (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  applied_at INTEGER,
  ok INTEGER,
  answer TEXT
);
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
CREATE TABLE messages (
  run_id TEXT NOT NULL REFERENCES runs(id),
  seq INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE pending_retain (
  id TEXT PRIMARY KEY,
  bank TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_retry_at INTEGER NOT NULL,
  last_error TEXT,
  created_at INTEGER NOT NULL
);
CREATE TABLE phase_transitions (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  from_phase TEXT NOT NULL,
  to_phase TEXT NOT NULL,
  reason TEXT,
  transitioned_at INTEGER NOT NULL
);
INSERT INTO "phase_transitions" VALUES('01M7H6QCR236TFHP0SWJX2676P','milestone/m1','research','plan','done',1767225603000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCTN56H75N1GN937MDGH','task/m1/s1/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCTNMC4CGQV6WQR21W9M','task/m1/s1/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCTP2FQAWN3Z2DT54RX8','slice/m1/s1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCTQDX0FBD91M4PBPVYY','slice/m1/s1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1YQ1R3GWKEN8Y1EQ2','task/m1/s2/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1YQ1R3GWKEN8Y1EQ3','task/m1/s2/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1Z3C47MXQASHJB221','slice/m1/s2','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1Z3C47MXQASHJB222','slice/m1/s2','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1Z3C47MXQASHJB223','task/m1/s3/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV1Z3C47MXQASHJB224','task/m1/s3/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCV2P0RH5Z8K0P7DV37K','milestone/m1','plan','execute','planned',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7H6QCY85ENE70CD7K28657J','task/m1/s1/t1','execute','tdd','done',1767225607000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD12RJG8XR8W88E4QTJJ','task/m1/s1/t1','tdd','verify','done',1767225609000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD40SPRJ6B3QJEWNADHY','task/m1/s1/t1','verify','review','passed: does not apply',1767225611000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD40WMPKHVMA230A3096','task/m1/s1/t1','review','merge','done',1767225611000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD5PMP81S4N8GX8FBBMN','task/m1/s1/t1','merge','complete','done',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD5QPG51QM0B8SR1EANJ','task/m1/s1/t2','research','plan','passed: does not apply',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7H6QD5QQT0205WEZXXJKYCN','task/m1/s1/t2','plan','execute','begins',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDBRZT7NXDXGA1R8H9S7','task/a1','research','plan','done',1767225618000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDDRX5RNG2ATCDZCF91Q','task/a1','plan','execute','planned',1767225620000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDGZTAPXMM4607Y6VFT5','task/a2','research','plan','done',1767225623000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDJTN4DZEG9CRW5JB86P','task/a2','plan','execute','planned',1767225625000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDPZPKKZEY3J2Y4B99J9','task/a3','research','plan','done',1767225628000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDSH3G0V368MVSQZQ81G','task/a3','plan','execute','planned',1767225630000);
INSERT INTO "phase_transitions" VALUES('01M7H6QDX4Q201HTJVM8BVGNQ5','task/a4','research','plan','done',1767225633000);
INSERT INTO "phase_transitions" VALUES('01M7H6QE0EV4QZ4X2SA0PDSESZ','task/a4','plan','execute','planned',1767225635000);
INSERT INTO "phase_transitions" VALUES('01M7H6QE8G4DVSJ3SCTAM6QECP','task/a3','execute','tdd','done',1767225643000);
INSERT INTO "phase_transitions" VALUES('01M7H6QEBPE57TYCKTKFKW2K2F','task/a3','tdd','verify','done',1767225645000);
INSERT INTO "phase_transitions" VALUES('01M7H6QEEAHVZCJ056E2GFK8AP','task/a3','verify','execute','gate check failed',1767225647000);
INSERT INTO "phase_transitions" VALUES('01M7H6QEGRV4GWFTM7C532HZXX','task/a4','execute','reassess','giving_up',1767225649000);
INSERT INTO "phase_transitions" VALUES('01M7H6QEJV2MCZ5QR4TM3QN8MB','task/a4','reassess','complete','abandoned',1767225651000);
CREATE TABLE recalls (
  run_id TEXT NOT NULL REFERENCES runs(id),
  unit_id TEXT NOT NULL,
  bank TEXT NOT NULL,
  entry_id TEXT NOT NULL,
  place INTEGER NOT NULL,
  PRIMARY KEY (run_id, entry_id)
);
CREATE TABLE repository_roots (
  root_commit TEXT PRIMARY KEY,
  recorded_at INTEGER NOT NULL
);
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
  tree TEXT,                                 
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
INSERT INTO "runs" VALUES('01M7H6QCPE5WJ8VVBY2MQ86TPC','unit_attempt','milestone/m1',NULL,'milestone/m1',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225602000,1767225603000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QCRYKCJ3D5D0VXRFFXQY','unit_attempt','milestone/m1',NULL,'milestone/m1',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225604000,1767225605000,'success',NULL,'the goal',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QCWB31QQPWNVBPC2QRY0','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,1,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225606000,1767225607000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QCZZFHTFKCH1DD24E9J4','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,2,'tdd',1,'succeeded','host',NULL,NULL,NULL,1767225608000,1767225609000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QD2DR5D99EE9HESVJX17','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,3,'verify',1,'succeeded','host',NULL,NULL,NULL,1767225610000,1767225611000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QD4TED1PKTM5SHE6SJA0','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,4,'merge',1,'succeeded','host',NULL,NULL,NULL,1767225612000,1767225613000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QD6SNDSKJXE42EMWE7VX','unit_attempt','task/m1/s2/t1',NULL,'task/m1/s2/t1',NULL,1,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225614000,1767225615000,'success','question','which colour?',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDAHHM5B66HQTHMRGPE6','unit_attempt','task/a1',NULL,'task/a1',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225617000,1767225618000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDCVKJHBRT3M88DC59TR','unit_attempt','task/a1',NULL,'task/a1',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225619000,1767225620000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDFVAAE0TY3YE2C2YDNZ','unit_attempt','task/a2',NULL,'task/a2',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225622000,1767225623000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDHWWTKDJ3CWFPBGWNSR','unit_attempt','task/a2',NULL,'task/a2',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225624000,1767225625000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDN0PCEB1G44S0A8DEHT','unit_attempt','task/a3',NULL,'task/a3',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225627000,1767225628000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDRH44FC01Z21V3WH66X','unit_attempt','task/a3',NULL,'task/a3',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225629000,1767225630000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDVSSQNJF9XF050N01X2','unit_attempt','task/a4',NULL,'task/a4',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225632000,1767225633000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QDZEY43GJ1G50ASEGSMD','unit_attempt','task/a4',NULL,'task/a4',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225634000,1767225635000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QE1KV82G23WFX7ZZ3P3E','unit_attempt','task/a1',NULL,'task/a1',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225636000,1767225637000,'interrupted','resumed_after_crash','',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QE36RQQW9T6Q5TAME09M','unit_attempt','task/a1',NULL,'task/a1',NULL,4,'execute',1,'failed','host',NULL,NULL,NULL,1767225638000,1767225639000,'interrupted','shutdown','',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QE5D4E40YJRYP7Q1VEYR','unit_attempt','task/a2',NULL,'task/a2',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225640000,1767225641000,'failure','turn_failed','dropped',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QE7E5KBM1QAM5B18FQC4','unit_attempt','task/a3',NULL,'task/a3',NULL,3,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225642000,1767225643000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QEAE4SN8Q4YP52A2ZX9B','unit_attempt','task/a3',NULL,'task/a3',NULL,4,'tdd',1,'succeeded','host',NULL,NULL,NULL,1767225644000,1767225645000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QEDAM1TD6CDNJH12YNFJ','unit_attempt','task/a3',NULL,'task/a3',NULL,5,'verify',1,'failed','host',NULL,NULL,NULL,1767225646000,1767225647000,'failure','gate_failed','check: red',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QEEYHKSGXQ1N70PPDKAJ','unit_attempt','task/a4',NULL,'task/a4',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225648000,1767225649000,'failure','giving_up','no',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QEHKZVF64TR82RCHXDTK','unit_attempt','task/a4',NULL,'task/a4',NULL,4,'reassess',1,'succeeded','host',NULL,NULL,NULL,1767225650000,1767225651000,'success',NULL,'abandon: not worth it',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7H6QEMHFVTSP07J1G1MAVW8','unit_attempt','task/m1/s1/t2',NULL,'task/m1/s1/t2',NULL,1,'execute',1,'preparing_workspace','host',NULL,NULL,NULL,1767225652000,NULL,NULL,NULL,'',0,0,0,0,0);
CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, description TEXT);
INSERT INTO "schema_migrations" VALUES(1,1794800071291,'core');
INSERT INTO "schema_migrations" VALUES(2,1794800071313,'merging');
INSERT INTO "schema_migrations" VALUES(3,1794800071317,'spending');
INSERT INTO "schema_migrations" VALUES(4,1794800071325,'attention');
INSERT INTO "schema_migrations" VALUES(7,1794800071330,'stations');
INSERT INTO "schema_migrations" VALUES(8,1767225600000,'reverting');
INSERT INTO "schema_migrations" VALUES(9,1767225600000,'session_ends');
INSERT INTO "schema_migrations" VALUES(10,1767225600000,'knowledge');
INSERT INTO "schema_migrations" VALUES(11,1767225600000,'roots');
INSERT INTO "schema_migrations" VALUES(12,1767225600000,'put_away');
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
INSERT INTO "session_blockers" VALUES('01M7H6QD86GE32FNN8GB8FFGC1','01M7H6QCNAEF3VH42TZ6HSNTWV','Question','task/m1/s2/t1','which colour?',1767225615000,NULL,NULL);
INSERT INTO "session_blockers" VALUES('01M7H6QEEAHVZCJ056E2GFK8AQ','01M7H6QCNAEF3VH42TZ6HSNTWV','GateBlocked','task/a3','gate check refused; the agent mends it',1767225647000,NULL,NULL);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL CHECK (status IN ('idle','running','paused','interrupted','complete','failed')),
  integration_branch TEXT,
  detail TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, ended_at INTEGER);
INSERT INTO "sessions" VALUES('01M7H6QCNAEF3VH42TZ6HSNTWV','idle','main','',1767225601000,1767225601000,NULL);
CREATE TABLE spend (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(id),
  unit_id TEXT NOT NULL,
  milestone_id TEXT NOT NULL,                
  session_id TEXT NOT NULL,
  phase TEXT NOT NULL,
  model TEXT NOT NULL,
  estimate_micro_usd INTEGER NOT NULL,
  cost_micro_usd INTEGER,                    
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  how TEXT CHECK (how IS NULL OR how IN ('answered','refused','cut','crashed')),
  opened_at INTEGER NOT NULL,
  settled_at INTEGER
);
CREATE TABLE spend_accounts (
  scope TEXT NOT NULL CHECK (scope IN ('unit','milestone','session')),
  key TEXT NOT NULL,
  spent_micro_usd INTEGER NOT NULL DEFAULT 0,
  reserved_micro_usd INTEGER NOT NULL DEFAULT 0,
  allowance_micro_usd INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, key)
);
CREATE TABLE task_blockers (
  task_id TEXT NOT NULL REFERENCES units(id) ON DELETE CASCADE,
  blocked_by TEXT NOT NULL REFERENCES units(id) ON DELETE CASCADE,
  PRIMARY KEY (task_id, blocked_by)
) WITHOUT ROWID;
INSERT INTO "task_blockers" VALUES('slice/m1/s3','slice/m1/s1');
INSERT INTO "task_blockers" VALUES('slice/m1/s3','slice/m1/s2');
INSERT INTO "task_blockers" VALUES('task/m1/s1/t2','task/m1/s1/t1');
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
  budget_used INTEGER NOT NULL,              
  budget_max INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, turn)
) WITHOUT ROWID;
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
  attempt INTEGER NOT NULL DEFAULT 0,        
  run_allowance INTEGER NOT NULL DEFAULT 100,
  plan_version INTEGER NOT NULL DEFAULT 1,
  made_under INTEGER NOT NULL DEFAULT 1,     
  claim_holder TEXT,
  claim_until INTEGER,
  priority INTEGER,
  phase_rank INTEGER NOT NULL,               
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  metadata TEXT NOT NULL DEFAULT '{}',
  plan TEXT,                                 
  open_blockers INTEGER NOT NULL DEFAULT 0,
  open_children INTEGER NOT NULL DEFAULT 0,
  parent_ready INTEGER NOT NULL DEFAULT 1,
  lane_open INTEGER NOT NULL DEFAULT 1,
  lane_owner TEXT,                           
  due_at INTEGER,
  hold_kind TEXT,
  hold_detail TEXT NOT NULL DEFAULT '',
  reassess_reason TEXT,
  verdict TEXT CHECK (verdict IS NULL OR verdict IN ('success','abandoned')),
  worker_host TEXT,
  workspace TEXT,
  branch TEXT,
  base_commit TEXT,
  merge_parent TEXT,                         
  archived_at INTEGER,
  wound_up_at INTEGER,                       
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, merge_marks TEXT, station TEXT, reverted_at INTEGER);
INSERT INTO "units" VALUES('milestone/m1','01M7H6QCNAEF3VH42TZ6HSNTWV',NULL,'milestone','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',2,100,1,1,NULL,NULL,NULL,2,'a goal','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"the goal","deliverables":["all of it"],"approach":"","verification":[],"notes":"","slices":[{"title":"A","tasks":[{"title":"TA1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]},{"title":"TA2","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":["TA1"]}],"description":"","code_depends_on":[]},{"title":"B","tasks":[{"title":"TB1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]}],"description":"","code_depends_on":[]},{"title":"C","tasks":[{"title":"TC1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]}],"description":"","code_depends_on":["A","B"]}],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,3,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225601000,1767225605000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('slice/m1/s1','01M7H6QCNAEF3VH42TZ6HSNTWV','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'A','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,0,1,1,1,'task/m1/s1/t2',NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225613000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/m1/s1/t1','01M7H6QCNAEF3VH42TZ6HSNTWV','slice/m1/s1','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','complete','succeeded',4,100,1,1,NULL,NULL,NULL,8,'TA1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TA1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,0,NULL,NULL,NULL,'',NULL,'success','host',NULL,NULL,NULL,NULL,1767225613000,NULL,1767225605000,1767225613000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/m1/s1/t2','01M7H6QCNAEF3VH42TZ6HSNTWV','slice/m1/s1','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','running',1,100,1,1,'host#1@1',1767225712000,NULL,2,'TA2','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TA2","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225652000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('slice/m1/s2','01M7H6QCNAEF3VH42TZ6HSNTWV','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'B','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,0,1,1,1,'task/m1/s2/t1',NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/m1/s2/t1','01M7H6QCNAEF3VH42TZ6HSNTWV','slice/m1/s2','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',1,100,1,1,NULL,NULL,NULL,2,'TB1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TB1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,'blocked','which colour?',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225615000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('slice/m1/s3','01M7H6QCNAEF3VH42TZ6HSNTWV','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','research','pending',0,100,1,1,NULL,NULL,NULL,0,'C','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,2,1,1,1,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/m1/s3/t1','01M7H6QCNAEF3VH42TZ6HSNTWV','slice/m1/s3','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'TC1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TC1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,0,1,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/a1','01M7H6QCNAEF3VH42TZ6HSNTWV',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','interrupted',4,100,1,1,NULL,NULL,NULL,2,'interrupted','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225616000,1767225639000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/a2','01M7H6QCNAEF3VH42TZ6HSNTWV',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','failed',3,100,1,1,NULL,NULL,NULL,2,'waiting','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,1767225651000,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225621000,1767225641000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/a3','01M7H6QCNAEF3VH42TZ6HSNTWV',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',5,100,1,1,NULL,NULL,NULL,2,'refused','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225626000,1767225647000,NULL,NULL,NULL);
INSERT INTO "units" VALUES('task/a4','01M7H6QCNAEF3VH42TZ6HSNTWV',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','complete','succeeded',4,100,1,1,NULL,NULL,NULL,8,'abandoned','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'not worth it','giving_up','abandoned','host',NULL,NULL,NULL,NULL,1767225651000,NULL,1767225631000,1767225651000,NULL,NULL,NULL);
CREATE TABLE workflow_pins (
  hash TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  content TEXT NOT NULL,
  pinned_at INTEGER NOT NULL
);
INSERT INTO "workflow_pins" VALUES('904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','feature','name = "feature"
phases = ["research", "plan", "execute", "tdd", "verify", "review", "merge", "complete"]
require_tdd = true
require_review = true
require_uat = false
max_retries = 3
max_reassess = 2
',1767225601000);
CREATE INDEX units_to_wind_up ON units(archived_at) WHERE archived_at IS NOT NULL AND wound_up_at IS NULL;
CREATE INDEX units_by_parent ON units(parent_id);
CREATE INDEX units_ready ON units(phase_rank, COALESCE(priority, 1000000), created_at, id)
  WHERE phase_status IN ('pending','interrupted','failed') AND phase <> 'complete'
    AND archived_at IS NULL AND hold_kind IS NULL AND open_blockers = 0 AND open_children = 0
    AND parent_ready = 1 AND lane_open = 1 AND due_at IS NULL;
CREATE INDEX units_due ON units(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX units_running ON units(claim_until) WHERE phase_status = 'running';
CREATE INDEX units_held ON units(hold_kind) WHERE hold_kind IS NOT NULL;
CREATE INDEX units_open ON units(type) WHERE phase <> 'complete' AND phase_status <> 'canceled';
CREATE INDEX phase_transitions_by_unit ON phase_transitions(unit_id);
CREATE INDEX task_blockers_by_upstream ON task_blockers(blocked_by);
CREATE INDEX runs_by_unit ON runs(unit_id_snap, attempt);
CREATE INDEX feedback_unread ON feedback(unit_id) WHERE read_by_run IS NULL;
CREATE INDEX gate_results_by_unit ON gate_results(unit_id);
CREATE INDEX session_blockers_open ON session_blockers(unit_id) WHERE resolved_at IS NULL;
CREATE INDEX intents_open ON intents(id) WHERE applied_at IS NULL;
CREATE INDEX spend_open ON spend(run_id) WHERE settled_at IS NULL;
CREATE INDEX spend_by_day ON spend(opened_at);
CREATE INDEX attention_open ON attention(unit_id) WHERE closed_at IS NULL;
CREATE INDEX attention_due ON attention(due_at) WHERE closed_at IS NULL AND due_at IS NOT NULL;
CREATE INDEX units_reverted ON units(reverted_at) WHERE reverted_at IS NOT NULL;
CREATE INDEX evidence_by_unit ON evidence(unit_id);
CREATE INDEX pending_retain_due ON pending_retain(next_retry_at);
CREATE INDEX recalls_by_unit ON recalls(unit_id);
CREATE INDEX chapters_by_unit ON chapters(unit_id);
CREATE INDEX units_to_put_away ON units(archived_at)
  WHERE archived_at IS NOT NULL AND wound_up_at IS NULL AND base_commit IS NOT NULL;
CREATE INDEX units_called_off ON units(claim_holder) WHERE phase_status = 'canceled' AND claim_holder IS NOT NULL;
COMMIT;
