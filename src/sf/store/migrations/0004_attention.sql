CREATE TABLE attention (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  unit_id TEXT,
  blocker_id TEXT REFERENCES session_blockers(id),
  kind TEXT NOT NULL,
  question TEXT NOT NULL,
  data TEXT NOT NULL DEFAULT '{}',
  default_answer TEXT,                       -- given at the deadline; NULL: it stays until a person answers
  due_at INTEGER,
  created_at INTEGER NOT NULL,
  closed_at INTEGER,
  answer TEXT,
  answered_by TEXT
);
CREATE INDEX attention_open ON attention(unit_id) WHERE closed_at IS NULL;
CREATE INDEX attention_due ON attention(due_at) WHERE closed_at IS NULL AND due_at IS NOT NULL;

-- Units that were parked before questions were rows of their own.
INSERT INTO attention (id, session_id, unit_id, blocker_id, kind, question, created_at)
SELECT b.id, b.session_id, b.unit_id, b.id, u.hold_kind, u.hold_detail, b.created_at
FROM session_blockers b JOIN units u ON u.id = b.unit_id
WHERE b.resolved_at IS NULL AND u.hold_kind IS NOT NULL;
