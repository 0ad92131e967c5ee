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
INSERT INTO "attention" VALUES('01M7GYG4GE6BQY5VVKKPW4BC9F','01M7GYG4EGFR15ANKD5ZX7M96T','task/m1/s2/t1','01M7GYG4GDJWVHVETKDQY78P51','blocked','which colour?','{}',NULL,NULL,1767225615000,NULL,NULL,NULL);
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
CREATE TABLE feedback (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  text TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  read_by_run TEXT
);
INSERT INTO "feedback" VALUES('01M7GYG4K2B8VSD09PAN2EVYJX','task/a1','resumed_after_crash',1767225637000,NULL);
INSERT INTO "feedback" VALUES('01M7GYG4KFEVZ3NJKXXW1YWGXA','task/a2','turn_failed: dropped',1767225641000,NULL);
INSERT INTO "feedback" VALUES('01M7GYG4M9NP3FCN36MMS3KJFW','task/a3','gate check failed:
red',1767225647000,NULL);
INSERT INTO "feedback" VALUES('01M7GYG4MGD1E6FNQ7BZ2FRNTA','task/a4','no',1767225649000,NULL);
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
CREATE TABLE messages (
  run_id TEXT NOT NULL REFERENCES runs(id),
  seq INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE phase_transitions (
  id TEXT PRIMARY KEY,
  unit_id TEXT NOT NULL REFERENCES units(id),
  from_phase TEXT NOT NULL,
  to_phase TEXT NOT NULL,
  reason TEXT,
  transitioned_at INTEGER NOT NULL
);
INSERT INTO "phase_transitions" VALUES('01M7GYG4ESNBNNGF8ZY97FBKXT','milestone/m1','research','plan','done',1767225603000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F00BP6YBBVXXF9CCR8','task/m1/s1/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F0EQ4G6TG9QV71FHJW','task/m1/s1/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F1RAS33YPC27PRF53A','slice/m1/s1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F1RAS33YPC27PRF53B','slice/m1/s1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F2J49ZAT2EACS21FFF','task/m1/s2/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F2ZECRJAWYXCKKPS3H','task/m1/s2/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F2ZECRJAWYXCKKPS3J','slice/m1/s2','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F2ZECRJAWYXCKKPS3K','slice/m1/s2','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F3389MXGDWJQ34GBDA','task/m1/s3/t1','research','plan','passed: does not apply',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F3YN8FNT4EQ454E1R0','task/m1/s3/t1','plan','execute','begins',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4F3YN8FNT4EQ454E1R1','milestone/m1','plan','execute','planned',1767225605000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4FAX0EGFG6HD59VWAGZ','task/m1/s1/t1','execute','tdd','done',1767225607000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4FJV2W6JCYB1655HXA0','task/m1/s1/t1','tdd','verify','done',1767225609000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4FSQB7Q12N3V1F3ETBA','task/m1/s1/t1','verify','review','passed: does not apply',1767225611000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4FTVCYDFJR0T78XWP3F','task/m1/s1/t1','review','merge','done',1767225611000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4G2J3E0GFG84Q5YAR35','task/m1/s1/t1','merge','complete','done',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4G4PB3PY855DG0ENRNF','task/m1/s1/t2','research','plan','passed: does not apply',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4G4PB3PY855DG0ENRNG','task/m1/s1/t2','plan','execute','begins',1767225613000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4GSNPH2WJ9P3AXA5J8K','task/a1','research','plan','done',1767225618000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4H18F9P7JBXFKPC3NQ4','task/a1','plan','execute','planned',1767225620000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4HDC71V00Z5DWZMWHF7','task/a2','research','plan','done',1767225623000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4HMPY2DXR3ZQCMAJBEP','task/a2','plan','execute','planned',1767225625000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4HY0T32ZTXM0KGHNJA5','task/a3','research','plan','done',1767225628000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4J6WNB48P3ZATV4QSNS','task/a3','plan','execute','planned',1767225630000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4JJZRNYWG95JDS67WE5','task/a4','research','plan','done',1767225633000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4JSSHYQ5TF61A9P1BG0','task/a4','plan','execute','planned',1767225635000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4KNC8T43C2GY7HZEAS3','task/a3','execute','tdd','done',1767225643000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4KVBXSWB2BQ0R8PP2MT','task/a3','tdd','verify','done',1767225645000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4M9NP3FCN36MMS3KJFX','task/a3','verify','execute','gate check failed',1767225647000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4MGVY0CG808FRCZNKT2','task/a4','execute','reassess','giving_up',1767225649000);
INSERT INTO "phase_transitions" VALUES('01M7GYG4MQHHPC5QPJ3PYBCNWM','task/a4','reassess','complete','abandoned',1767225651000);
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
INSERT INTO "runs" VALUES('01M7GYG4ENJGYNWJZJPF3A7SBT','unit_attempt','milestone/m1',NULL,'milestone/m1',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225602000,1767225603000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4EXDFMB31TQC6QF4XTX','unit_attempt','milestone/m1',NULL,'milestone/m1',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225604000,1767225605000,'success',NULL,'the goal',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4F6D93BG39BNEW8CCNN','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,1,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225606000,1767225607000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4FEV63TDA0S755106X7','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,2,'tdd',1,'succeeded','host',NULL,NULL,NULL,1767225608000,1767225609000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4FNQ35H373B8GCN6EZ8','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,3,'verify',1,'succeeded','host',NULL,NULL,NULL,1767225610000,1767225611000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4FY5FWGHYV5ESZMT5K9','unit_attempt','task/m1/s1/t1',NULL,'task/m1/s1/t1',NULL,4,'merge',1,'succeeded','host',NULL,NULL,NULL,1767225612000,1767225613000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4G93JA72RHKC0K4R1F5','unit_attempt','task/m1/s2/t1',NULL,'task/m1/s2/t1',NULL,1,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225614000,1767225615000,'success','question','which colour?',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4GNMR98AV5YEN23ZH76','unit_attempt','task/a1',NULL,'task/a1',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225617000,1767225618000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4GXY61Q1GR5Y3YWGCZJ','unit_attempt','task/a1',NULL,'task/a1',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225619000,1767225620000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4HA9F00BE3Y3AX0JE85','unit_attempt','task/a2',NULL,'task/a2',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225622000,1767225623000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4HHAFJ3VJQRG2ZVXVKN','unit_attempt','task/a2',NULL,'task/a2',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225624000,1767225625000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4HVGW43H9XQ6Z6QH08X','unit_attempt','task/a3',NULL,'task/a3',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225627000,1767225628000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4J23M6K9NQPBVWHCEPZ','unit_attempt','task/a3',NULL,'task/a3',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225629000,1767225630000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4JEYEM9W3246FDS9RMP','unit_attempt','task/a4',NULL,'task/a4',NULL,1,'research',1,'succeeded','host',NULL,NULL,NULL,1767225632000,1767225633000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4JNP7D61TAFGQ6ZJMV3','unit_attempt','task/a4',NULL,'task/a4',NULL,2,'plan',1,'succeeded','host',NULL,NULL,NULL,1767225634000,1767225635000,'success',NULL,'x',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4JY6G1T9YW0TT993MK7','unit_attempt','task/a1',NULL,'task/a1',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225636000,1767225637000,'interrupted','resumed_after_crash','',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4K67GEQPHRCDSK3B5KK','unit_attempt','task/a1',NULL,'task/a1',NULL,4,'execute',1,'failed','host',NULL,NULL,NULL,1767225638000,1767225639000,'interrupted','shutdown','',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4KCYXS0ESZTQCC2Q04S','unit_attempt','task/a2',NULL,'task/a2',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225640000,1767225641000,'failure','turn_failed','dropped',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4KJR9RN9558906PXA09','unit_attempt','task/a3',NULL,'task/a3',NULL,3,'execute',1,'succeeded','host',NULL,NULL,NULL,1767225642000,1767225643000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4KRT9GRTWE099DXFX00','unit_attempt','task/a3',NULL,'task/a3',NULL,4,'tdd',1,'succeeded','host',NULL,NULL,NULL,1767225644000,1767225645000,'success',NULL,'',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4KZC8RF4X63T4R7R0H1','unit_attempt','task/a3',NULL,'task/a3',NULL,5,'verify',1,'failed','host',NULL,NULL,NULL,1767225646000,1767225647000,'failure','gate_failed','check: red',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4MCDFN9KQWHDS5DZ5QF','unit_attempt','task/a4',NULL,'task/a4',NULL,3,'execute',1,'failed','host',NULL,NULL,NULL,1767225648000,1767225649000,'failure','giving_up','no',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4MKBY0470PX83Q3N2ZG','unit_attempt','task/a4',NULL,'task/a4',NULL,4,'reassess',1,'succeeded','host',NULL,NULL,NULL,1767225650000,1767225651000,'success',NULL,'abandon: not worth it',0,0,0,0,0);
INSERT INTO "runs" VALUES('01M7GYG4MTXZAFRZWE592AP225','unit_attempt','task/m1/s1/t2',NULL,'task/m1/s1/t2',NULL,1,'execute',1,'preparing_workspace','host',NULL,NULL,NULL,1767225652000,NULL,NULL,NULL,'',0,0,0,0,0);
CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, description TEXT);
INSERT INTO "schema_migrations" VALUES(1,1794791444937,'core');
INSERT INTO "schema_migrations" VALUES(2,1794791444940,'merging');
INSERT INTO "schema_migrations" VALUES(3,1794791444941,'spending');
INSERT INTO "schema_migrations" VALUES(4,1794791444942,'attention');
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
INSERT INTO "session_blockers" VALUES('01M7GYG4GDJWVHVETKDQY78P51','01M7GYG4EGFR15ANKD5ZX7M96T','Question','task/m1/s2/t1','which colour?',1767225615000,NULL,NULL);
INSERT INTO "session_blockers" VALUES('01M7GYG4M9NP3FCN36MMS3KJFY','01M7GYG4EGFR15ANKD5ZX7M96T','GateBlocked','task/a3','gate check refused; the agent mends it',1767225647000,NULL,NULL);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL CHECK (status IN ('idle','running','paused','interrupted','complete','failed')),
  integration_branch TEXT,
  detail TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
INSERT INTO "sessions" VALUES('01M7GYG4EGFR15ANKD5ZX7M96T','idle','main','',1767225601000,1767225601000);
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
, merge_marks TEXT);
INSERT INTO "units" VALUES('milestone/m1','01M7GYG4EGFR15ANKD5ZX7M96T',NULL,'milestone','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',2,100,1,1,NULL,NULL,NULL,2,'a goal','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"the goal","deliverables":["all of it"],"approach":"","verification":[],"notes":"","slices":[{"title":"A","tasks":[{"title":"TA1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]},{"title":"TA2","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":["TA1"]}],"description":"","code_depends_on":[]},{"title":"B","tasks":[{"title":"TB1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]}],"description":"","code_depends_on":[]},{"title":"C","tasks":[{"title":"TC1","description":"","deliverables":["it is there"],"verification":["the gate"],"allowed_areas":[],"forbidden_areas":[],"blocked_by":[]}],"description":"","code_depends_on":["A","B"]}],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,3,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225601000,1767225605000,NULL);
INSERT INTO "units" VALUES('slice/m1/s1','01M7GYG4EGFR15ANKD5ZX7M96T','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'A','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,0,1,1,1,'task/m1/s1/t2',NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225613000,NULL);
INSERT INTO "units" VALUES('task/m1/s1/t1','01M7GYG4EGFR15ANKD5ZX7M96T','slice/m1/s1','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','complete','succeeded',4,100,1,1,NULL,NULL,NULL,8,'TA1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TA1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,0,NULL,NULL,NULL,'',NULL,'success','host',NULL,NULL,NULL,NULL,1767225613000,NULL,1767225605000,1767225613000,NULL);
INSERT INTO "units" VALUES('task/m1/s1/t2','01M7GYG4EGFR15ANKD5ZX7M96T','slice/m1/s1','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','running',1,100,1,1,'host#1@1',1767225712000,NULL,2,'TA2','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TA2","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225652000,NULL);
INSERT INTO "units" VALUES('slice/m1/s2','01M7GYG4EGFR15ANKD5ZX7M96T','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'B','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,0,1,1,1,'task/m1/s2/t1',NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL);
INSERT INTO "units" VALUES('task/m1/s2/t1','01M7GYG4EGFR15ANKD5ZX7M96T','slice/m1/s2','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',1,100,1,1,NULL,NULL,NULL,2,'TB1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TB1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,'blocked','which colour?',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225615000,NULL);
INSERT INTO "units" VALUES('slice/m1/s3','01M7GYG4EGFR15ANKD5ZX7M96T','milestone/m1','slice','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','research','pending',0,100,1,1,NULL,NULL,NULL,0,'C','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}',NULL,2,1,1,1,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL);
INSERT INTO "units" VALUES('task/m1/s3/t1','01M7GYG4EGFR15ANKD5ZX7M96T','slice/m1/s3','task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',0,100,1,1,NULL,NULL,NULL,2,'TC1','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"TC1","deliverables":["it is there"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,0,1,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767225605000,1767225605000,NULL);
INSERT INTO "units" VALUES('task/a1','01M7GYG4EGFR15ANKD5ZX7M96T',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','interrupted',4,100,1,1,NULL,NULL,NULL,2,'interrupted','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225616000,1767225639000,NULL);
INSERT INTO "units" VALUES('task/a2','01M7GYG4EGFR15ANKD5ZX7M96T',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','failed',3,100,1,1,NULL,NULL,NULL,2,'waiting','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,1767225651000,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225621000,1767225641000,NULL);
INSERT INTO "units" VALUES('task/a3','01M7GYG4EGFR15ANKD5ZX7M96T',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','execute','pending',5,100,1,1,NULL,NULL,NULL,2,'refused','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'',NULL,NULL,'host',NULL,NULL,NULL,NULL,NULL,NULL,1767225626000,1767225647000,NULL);
INSERT INTO "units" VALUES('task/a4','01M7GYG4EGFR15ANKD5ZX7M96T',NULL,'task','feature','904ad6745213225445b23b2b2fae752b3b43ae4bb26586583ce1b54f054c02b7','complete','succeeded',4,100,1,1,NULL,NULL,NULL,8,'abandoned','','{"integration_branch":"main","worktree_mode":"branch-per-slice"}','{"goal":"x","deliverables":["it"],"approach":"","verification":["the gate"],"notes":"","slices":[],"tasks":[],"allowed_areas":[],"forbidden_areas":[]}',0,0,1,1,NULL,NULL,NULL,'not worth it','giving_up','abandoned','host',NULL,NULL,NULL,NULL,1767225651000,NULL,1767225631000,1767225651000,NULL);
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
CREATE INDEX runs_live ON runs(started_at) WHERE ended_at IS NULL;
CREATE INDEX feedback_unread ON feedback(unit_id) WHERE read_by_run IS NULL;
CREATE INDEX gate_results_by_unit ON gate_results(unit_id);
CREATE INDEX evidence_by_unit ON evidence(unit_id);
CREATE INDEX session_blockers_open ON session_blockers(unit_id) WHERE resolved_at IS NULL;
CREATE INDEX intents_open ON intents(id) WHERE applied_at IS NULL;
CREATE INDEX spend_open ON spend(run_id) WHERE settled_at IS NULL;
CREATE INDEX spend_by_day ON spend(opened_at);
CREATE INDEX attention_open ON attention(unit_id) WHERE closed_at IS NULL;
CREATE INDEX attention_due ON attention(due_at) WHERE closed_at IS NULL AND due_at IS NOT NULL;
COMMIT;
