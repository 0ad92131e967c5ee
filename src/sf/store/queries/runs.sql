-- name: insert
INSERT INTO runs (id, run_kind, unit_id, unit_id_snap, attempt, phase, plan_version, worker_host, started_at)
VALUES (:id, 'unit_attempt', :unit, :unit, :attempt, :phase, :plan_version, :host, :now)

-- name: get
SELECT * FROM runs WHERE id = :id

-- name: finish
UPDATE runs SET ended_at = :now, outcome = :outcome, state = :state, error_code = :error_code, detail = :detail,
  tree = COALESCE(:tree, tree),
  (turns, input_tokens, output_tokens, cache_read_tokens, model) = (
    SELECT COUNT(*), COALESCE(SUM(t.input_tokens), 0), COALESCE(SUM(t.output_tokens), 0),
      COALESCE(SUM(t.cache_read_tokens), 0), COALESCE(MAX(t.model), runs.model)
    FROM turns t WHERE t.run_id = :id),
  cost_micro_usd = (
    SELECT COALESCE(SUM(s.cost_micro_usd), 0) FROM spend s WHERE s.run_id = :id AND s.id > :id)
WHERE id = :id AND ended_at IS NULL

-- name: asks
UPDATE runs SET state = :state, model = :model WHERE id = :id

-- name: of_unit
SELECT * FROM runs WHERE unit_id_snap = :unit ORDER BY attempt

-- name: last_end
SELECT error_code, detail FROM runs WHERE unit_id_snap = :unit AND attempt = :attempt

-- name: in_a_row
SELECT COUNT(*) AS n FROM runs WHERE unit_id_snap = :unit AND error_code = :code AND attempt > COALESCE((
  SELECT MAX(attempt) FROM runs
  WHERE unit_id_snap = :unit AND ended_at IS NOT NULL AND COALESCE(error_code, '') <> :code), 0)

-- name: live
SELECT * FROM runs WHERE ended_at IS NULL ORDER BY started_at

-- name: live_of_unit
SELECT * FROM runs WHERE unit_id_snap = :unit AND ended_at IS NULL ORDER BY attempt DESC LIMIT 1

-- name: totals
SELECT COUNT(*) AS runs, COALESCE(SUM(input_tokens), 0) AS input_tokens, COALESCE(SUM(output_tokens), 0) AS output_tokens,
  COALESCE(SUM(ended_at - started_at), 0) AS milliseconds,
  (SELECT COALESCE(SUM(a.spent_micro_usd), 0) FROM spend_accounts a WHERE a.scope = 'session')
    + (SELECT COALESCE(SUM(s.estimate_micro_usd), 0) FROM spend s WHERE s.settled_at IS NULL AND s.model <> '')
    + COALESCE(SUM(CASE WHEN ended_at < COALESCE((SELECT MIN(opened_at) FROM spend), 9223372036854775807)
      THEN cost_micro_usd END), 0) AS cost_micro_usd
FROM runs

-- name: totals_of_unit
SELECT COUNT(*) AS runs, COALESCE(SUM(input_tokens), 0) AS input_tokens, COALESCE(SUM(output_tokens), 0) AS output_tokens,
  COALESCE(SUM(cache_read_tokens), 0) AS cache_read_tokens,
  COALESCE(SUM(ended_at - started_at), 0) AS milliseconds, MAX(model) AS model,
  (SELECT COALESCE(SUM(a.spent_micro_usd), 0) FROM spend_accounts a WHERE a.scope = 'unit' AND a.key = :unit)
    + (SELECT COALESCE(SUM(s.estimate_micro_usd), 0) FROM spend s
       WHERE s.settled_at IS NULL AND s.model <> '' AND s.unit_id = :unit)
    + COALESCE(SUM(CASE WHEN ended_at < COALESCE((SELECT MIN(opened_at) FROM spend), 9223372036854775807)
      THEN cost_micro_usd END), 0) AS cost_micro_usd
FROM runs WHERE unit_id_snap = :unit

-- name: turn
INSERT INTO turns (run_id, turn, kind, model, marker, tool_calls, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, cost_micro_usd, budget_used, budget_max, ended_at)
VALUES (:run, :turn, :kind, :model, :marker, :tool_calls, :input_tokens, :output_tokens, :cache_read_tokens,
  :cache_write_tokens, :cost_micro_usd, :budget_used, :budget_max, :now)

-- name: message
INSERT INTO messages (run_id, seq, turn, content)
SELECT :run, COALESCE(MAX(seq), 0) + 1, :turn, :content FROM messages WHERE run_id = :run

-- name: turns_of_run
SELECT * FROM turns WHERE run_id = :run ORDER BY turn

-- name: messages_of_run
SELECT seq, turn, content FROM messages WHERE run_id = :run ORDER BY seq

-- name: spent_by_run
SELECT COUNT(*) AS turns, COALESCE(SUM(input_tokens), 0) AS input_tokens, COALESCE(SUM(output_tokens), 0) AS output_tokens,
  COALESCE(SUM(cache_read_tokens), 0) AS cache_read_tokens, MAX(model) AS model,
  (SELECT COALESCE(SUM(COALESCE(s.cost_micro_usd, s.estimate_micro_usd)), 0) FROM spend s
   WHERE s.run_id = :run AND s.id > :run AND s.model <> '') AS cost_micro_usd,
  (SELECT COALESCE(SUM(s.estimate_micro_usd), 0) FROM spend s
   WHERE s.run_id = :run AND s.id > :run AND s.model <> '' AND s.settled_at IS NULL) AS reserved_micro_usd
FROM turns WHERE run_id = :run

-- name: history
SELECT u.id AS unit_id, u.title, u.type, u.workflow, u.verdict, u.phase_status, u.archived_at, u.updated_at,
  u.reverted_at,
  (SELECT group_concat(DISTINCT r.model) FROM runs r WHERE r.unit_id_snap = u.id AND r.model IS NOT NULL) AS models,
  (SELECT COALESCE(SUM(a.spent_micro_usd), 0) FROM spend_accounts a
   WHERE a.scope = 'unit' AND a.key = u.id)
    + (SELECT COALESCE(SUM(r.cost_micro_usd), 0) FROM runs r WHERE r.unit_id_snap = u.id
       AND r.ended_at < COALESCE((SELECT MIN(opened_at) FROM spend), 9223372036854775807)) AS cost_micro_usd,
  (SELECT COUNT(*) FROM runs r WHERE r.unit_id_snap = u.id) AS runs,
  (SELECT e.commit_id FROM evidence e WHERE e.unit_id = u.id AND e.kind = 'merge' AND e.commit_id IS NOT NULL ORDER BY e.id DESC LIMIT 1) AS commit_id
FROM units u
WHERE u.archived_at IS NOT NULL
  AND (:since IS NULL OR u.updated_at >= :since)
  AND (:workflow IS NULL OR u.workflow = :workflow)
  AND (:verdict IS NULL OR :verdict = CASE WHEN u.reverted_at IS NOT NULL THEN 'reverted'
    ELSE COALESCE(u.verdict, u.phase_status) END)
  AND (:phase IS NULL OR EXISTS (SELECT 1 FROM phase_transitions t WHERE t.unit_id = u.id AND t.to_phase = :phase))
  AND (:model IS NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.unit_id_snap = u.id AND lower(r.model) LIKE '%' || lower(:model) || '%'))
ORDER BY u.archived_at DESC, u.id DESC
LIMIT :most

-- name: history @postgres
SELECT u.id AS unit_id, u.title, u.type, u.workflow, u.verdict, u.phase_status, u.archived_at, u.updated_at,
  u.reverted_at,
  (SELECT string_agg(DISTINCT r.model, ',') FROM runs r WHERE r.unit_id_snap = u.id AND r.model IS NOT NULL) AS models,
  (SELECT COALESCE(SUM(a.spent_micro_usd), 0) FROM spend_accounts a
   WHERE a.scope = 'unit' AND a.key = u.id)
    + (SELECT COALESCE(SUM(r.cost_micro_usd), 0) FROM runs r WHERE r.unit_id_snap = u.id
       AND r.ended_at < COALESCE((SELECT MIN(opened_at) FROM spend), 9223372036854775807)) AS cost_micro_usd,
  (SELECT COUNT(*) FROM runs r WHERE r.unit_id_snap = u.id) AS runs,
  (SELECT e.commit_id FROM evidence e WHERE e.unit_id = u.id AND e.kind = 'merge' AND e.commit_id IS NOT NULL ORDER BY e.id DESC LIMIT 1) AS commit_id
FROM units u
WHERE u.archived_at IS NOT NULL
  AND (:since IS NULL OR u.updated_at >= :since)
  AND (:workflow IS NULL OR u.workflow = :workflow)
  AND (:verdict IS NULL OR :verdict = CASE WHEN u.reverted_at IS NOT NULL THEN 'reverted'
    ELSE COALESCE(u.verdict, u.phase_status) END)
  AND (:phase IS NULL OR EXISTS (SELECT 1 FROM phase_transitions t WHERE t.unit_id = u.id AND t.to_phase = :phase))
  AND (:model IS NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.unit_id_snap = u.id AND lower(r.model) LIKE '%' || lower(:model) || '%'))
ORDER BY u.archived_at DESC, u.id DESC
LIMIT :most

-- name: last_writing
SELECT * FROM runs
WHERE phase IN ('execute','tdd') AND ended_at IS NOT NULL AND (unit_id_snap = :unit
  OR SUBSTR(unit_id_snap, LENGTH('slice/') + 1, LENGTH(:below)) = :below
  OR SUBSTR(unit_id_snap, LENGTH('task/') + 1, LENGTH(:below)) = :below)
ORDER BY id DESC LIMIT 1
