-- name: raise_counter
INSERT INTO attempt_ledger (unit_id, plan_version, kind, key, count) VALUES (:unit, :version, :kind, :key, 1)
ON CONFLICT (unit_id, plan_version, kind, key) DO UPDATE SET count = attempt_ledger.count + 1

-- name: clear_counters
UPDATE attempt_ledger SET count = 0 WHERE unit_id = :unit AND plan_version = :version AND kind = :kind

-- name: count
SELECT count FROM attempt_ledger WHERE unit_id = :unit AND plan_version = :version AND kind = :kind AND key = :key

-- name: counters
SELECT kind, key, count FROM attempt_ledger WHERE unit_id = :unit AND plan_version IN (:version, 0)

-- name: all_counters
SELECT plan_version, kind, key, count FROM attempt_ledger WHERE unit_id = :unit AND count > 0
ORDER BY CASE WHEN plan_version = 0 THEN 1 ELSE 0 END, plan_version DESC, kind, key

-- name: give_feedback
INSERT INTO feedback (id, unit_id, text, created_at) VALUES (:id, :unit, :text, :now)

-- name: unread
SELECT id, text FROM feedback WHERE unit_id = :unit AND read_by_run IS NULL ORDER BY id

-- name: mark_read
UPDATE feedback SET read_by_run = :run WHERE unit_id = :unit AND read_by_run IS NULL AND id <= :last

-- name: gate_result
INSERT INTO gate_results (id, unit_id, run_id, gate_name, passed, exit_code, attempt, max_retries, tree, clean,
  script, output, duration_ms, recorded_at)
VALUES (:id, :unit, :run, :gate, :passed, :exit_code, :attempt, :max_retries, :tree, :clean,
  :script, :output, :duration_ms, :now)

-- name: gate_results_of
SELECT * FROM gate_results WHERE unit_id = :unit ORDER BY id

-- name: proofs
SELECT DISTINCT gate_name, script FROM gate_results
WHERE unit_id = :unit AND tree = :tree AND passed = 1 AND exit_code = 0 AND clean >= :clean

-- name: passed_on
SELECT COUNT(*) AS n FROM gate_results WHERE unit_id = :unit AND tree = :tree AND exit_code = 0 AND clean = 1

-- name: evidence
INSERT INTO evidence (id, unit_id, run_id, kind, tree, commit_id, summary, recorded_at)
VALUES (:id, :unit, :run, :kind, :tree, :commit, :summary, :now)

-- name: last_review
SELECT tree, summary FROM evidence WHERE unit_id = :unit AND kind = 'review' ORDER BY id DESC LIMIT 1

-- name: evidence_of
SELECT * FROM evidence WHERE unit_id = :unit ORDER BY id

-- name: open_blocker
INSERT INTO session_blockers (id, session_id, event, unit_id, detail, created_at)
VALUES (:id, :session, :event, :unit, :detail, :now)

-- name: reopen_blocker
UPDATE session_blockers SET resolved_at = NULL, resolved_by = NULL, session_id = :session WHERE id = :id

-- name: reword_blocker
UPDATE session_blockers SET detail = :detail WHERE id = :id AND resolved_at IS NULL

-- name: resolve_unit_blockers
UPDATE session_blockers SET resolved_at = :now, resolved_by = :by
WHERE unit_id = :unit AND resolved_at IS NULL AND event <> :but

-- name: resolve_blocker
UPDATE session_blockers SET resolved_at = :now, resolved_by = :by WHERE id = :id AND resolved_at IS NULL

-- name: resolve_event
UPDATE session_blockers SET resolved_at = :now, resolved_by = :by
WHERE event = :event AND resolved_at IS NULL AND (:unit IS NULL OR unit_id = :unit)

-- name: blocker
SELECT * FROM session_blockers WHERE :part <> '' AND resolved_at IS NULL
  AND (substr(id, 1, length(:part)) = :part OR substr(id, length(id) - length(:part) + 1) = :part)

-- name: open_blockers
SELECT * FROM session_blockers WHERE resolved_at IS NULL ORDER BY id

-- name: intend
INSERT INTO intents (id, kind, payload, created_at) VALUES (:id, :kind, :payload, :now)

-- name: open_intents
SELECT * FROM intents WHERE applied_at IS NULL ORDER BY id

-- name: answer_intent
UPDATE intents SET applied_at = :now, ok = :ok, answer = :answer WHERE id = :id AND applied_at IS NULL

-- name: intent
SELECT * FROM intents WHERE id = :id

-- name: answers
SELECT answer FROM intents WHERE kind = :kind AND ok = 1

-- name: new_session
INSERT INTO sessions (id, status, integration_branch, created_at, updated_at) VALUES (:id, 'idle', :branch, :now, :now)

-- name: current_session
SELECT * FROM sessions WHERE status <> 'complete' ORDER BY id DESC LIMIT 1

-- name: end_session
UPDATE sessions SET status = 'complete', detail = '', ended_at = :now, updated_at = :now
WHERE id = :id AND status <> 'complete'

-- name: open_for
SELECT DISTINCT s.integration_branch AS branch, u.metadata FROM units u JOIN sessions s ON s.id = u.session_id
WHERE u.phase <> 'complete' AND u.phase_status <> 'canceled' AND u.archived_at IS NULL AND s.integration_branch IS NOT NULL

-- name: last_deed
SELECT MAX(at) AS at FROM (
  SELECT MAX(updated_at) AS at FROM sessions
  UNION ALL SELECT MAX(applied_at) FROM intents
  UNION ALL SELECT MAX(closed_at) FROM attention
  UNION ALL SELECT MAX(COALESCE(ended_at, started_at)) FROM runs
) AS deeds

-- name: carry_units
UPDATE units SET session_id = :id WHERE archived_at IS NULL AND session_id <> :id

-- name: carry_blockers
UPDATE session_blockers SET session_id = :id WHERE resolved_at IS NULL AND session_id <> :id

-- name: carry_questions
UPDATE attention SET session_id = :id WHERE closed_at IS NULL AND session_id <> :id

-- name: sessions
SELECT s.id, s.status, s.integration_branch, s.created_at, s.ended_at,
  (SELECT COUNT(*) FROM units u WHERE u.session_id = s.id) AS units,
  (SELECT COUNT(*) FROM units u WHERE u.session_id = s.id AND u.phase = 'complete' AND u.verdict = 'success' AND u.reverted_at IS NULL) AS done,
  (SELECT CAST(COALESCE(SUM(COALESCE(p.cost_micro_usd, p.estimate_micro_usd)), 0) AS BIGINT)
   FROM spend p WHERE p.session_id = s.id AND p.model <> '') AS cost_micro_usd
FROM sessions s ORDER BY s.id

-- name: seats
SELECT 0 AS n

-- name: seats @postgres
SELECT COUNT(DISTINCT pid) AS n FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('sf.seat.' || current_schema(), 0)

-- name: seated
SELECT '' AS name WHERE 1 = 0

-- name: seated @postgres
SELECT DISTINCT ON (a.pid) a.application_name AS name
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended('sf.seat.' || current_schema(), 0)

-- name: set_session
UPDATE sessions SET status = :status, detail = :detail, updated_at = :now WHERE id = :id

-- name: set_branch
UPDATE sessions SET integration_branch = :branch, updated_at = :now WHERE id = :id

-- name: pin
INSERT INTO workflow_pins (hash, name, content, pinned_at) VALUES (:hash, :name, :content, :now) ON CONFLICT DO NOTHING

-- name: pinned
SELECT name, content FROM workflow_pins WHERE hash = :hash
