-- name: get
SELECT * FROM units WHERE id = :id

-- name: insert
INSERT INTO units (id, session_id, parent_id, type, workflow, workflow_hash, phase, phase_status, phase_rank,
  run_allowance, plan_version, made_under, priority, title, description, metadata, plan, open_blockers,
  parent_ready, lane_open, station, created_at, updated_at)
VALUES (:id, :session_id, :parent_id, :type, :workflow, :workflow_hash, :phase, 'pending', :phase_rank,
  :run_allowance, 1, :made_under, :priority, :title, :description, :metadata, :plan, :open_blockers,
  :parent_ready, :lane_open, :station, :now, :now)

-- name: settle
UPDATE units
SET phase = :phase, phase_rank = :rank, phase_status = :status, due_at = :due_at, hold_kind = :hold_kind, hold_detail = :hold_detail,
    verdict = :verdict, reassess_reason = :reassess_reason, plan_version = :plan_version,
    claim_holder = NULL, claim_until = NULL, archived_at = :archived_at, updated_at = :now
WHERE id = :id AND phase = :origin

-- name: cancel
UPDATE units SET phase_status = 'canceled', due_at = NULL, hold_kind = NULL, hold_detail = :reason, updated_at = :now
WHERE id = :id

-- name: set_hold
UPDATE units SET hold_kind = :hold_kind, hold_detail = :hold_detail, updated_at = :now WHERE id = :id

-- name: allow_runs
UPDATE units SET run_allowance = attempt + :more WHERE id = :id

-- name: return_run
UPDATE units SET run_allowance = run_allowance + 1 WHERE id = :id

-- name: set_plan
UPDATE units SET plan = :plan, updated_at = :now WHERE id = :id

-- name: set_metadata
UPDATE units SET metadata = :metadata WHERE id = :id

-- name: set_place
UPDATE units SET workspace = :workspace, branch = COALESCE(:branch, branch),
  base_commit = COALESCE(:base, base_commit), updated_at = :now WHERE id = :id

-- name: stations
SELECT DISTINCT station FROM units
WHERE station IS NOT NULL AND (archived_at IS NULL OR (wound_up_at IS NULL AND phase_status <> 'canceled'))
ORDER BY station

-- name: bind
WITH RECURSIVE begun AS (
  SELECT id, parent_id FROM units WHERE attempt > 0 OR base_commit IS NOT NULL
  UNION SELECT u.id, u.parent_id FROM units u JOIN begun b ON u.id = b.parent_id
), whole AS (
  SELECT id FROM begun WHERE parent_id IS NULL
  UNION SELECT u.id FROM units u JOIN whole w ON u.parent_id = w.id
)
UPDATE units SET station = :station WHERE station IS NULL AND id IN (SELECT id FROM whole)

-- name: unbind
UPDATE units SET station = NULL WHERE station = :station

-- name: leave_foreign
UPDATE units SET wound_up_at = :now WHERE station <> :station AND archived_at IS NOT NULL AND wound_up_at IS NULL

-- name: unbind_unit
UPDATE units SET station = NULL WHERE id = :id

-- name: set_merging
UPDATE units SET merge_parent = :parent, merge_marks = :marks, updated_at = :now WHERE id = :id

-- name: archive
UPDATE units SET archived_at = :now, updated_at = :now WHERE id = :id

-- name: set_reverted
UPDATE units SET reverted_at = :now, updated_at = :now WHERE id = :id AND reverted_at IS NULL

-- name: reverted
SELECT * FROM units WHERE reverted_at IS NOT NULL ORDER BY reverted_at DESC, id LIMIT :most

-- name: to_wind_up
SELECT * FROM units
WHERE archived_at IS NOT NULL AND wound_up_at IS NULL AND claim_holder IS NULL
  AND (:station = '' OR COALESCE(station, :station) = :station)
ORDER BY archived_at, id DESC

-- name: bind_unit
UPDATE units SET station = :station WHERE id = :id AND station IS NULL AND wound_up_at IS NULL

-- name: wound_up
UPDATE units SET wound_up_at = :now WHERE id IN (SELECT value FROM json_each(:ids))

-- name: wound_up @postgres
UPDATE units SET wound_up_at = :now WHERE id IN (SELECT value FROM json_array_elements_text(CAST(:ids AS json)))

-- name: add_blocker
INSERT INTO task_blockers (task_id, blocked_by) VALUES (:unit, :upstream)

-- name: record_transition
INSERT INTO phase_transitions (id, unit_id, from_phase, to_phase, reason, transitioned_at)
VALUES (:id, :unit, :origin, :to, :reason, :now)

-- name: transitions
SELECT from_phase, to_phase, reason, transitioned_at FROM phase_transitions WHERE unit_id = :id ORDER BY id

-- name: open_count
SELECT COUNT(*) AS n FROM units WHERE phase <> 'complete' AND phase_status <> 'canceled' AND archived_at IS NULL
  AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: due_later
SELECT * FROM units WHERE due_at IS NOT NULL AND archived_at IS NULL AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: held
SELECT * FROM units WHERE hold_kind IS NOT NULL AND archived_at IS NULL AND (:station = '' OR COALESCE(station, :station) = :station) ORDER BY updated_at

-- name: listed
SELECT * FROM units WHERE archived_at IS NULL OR :all = 1 ORDER BY created_at, id LIMIT :most

-- name: queued
SELECT * FROM units
WHERE phase <> 'complete' AND phase_status NOT IN ('canceled','running') AND hold_kind IS NULL AND archived_at IS NULL
ORDER BY CASE WHEN open_blockers = 0 AND open_children = 0 AND parent_ready = 1 AND lane_open = 1 THEN 0 ELSE 1 END,
  created_at, id
LIMIT :most

-- name: goals_metadata
SELECT DISTINCT metadata FROM units
WHERE parent_id IS NULL AND phase <> 'complete' AND phase_status <> 'canceled' AND archived_at IS NULL

-- name: recent
SELECT * FROM units WHERE archived_at IS NULL OR archived_at >= :since ORDER BY updated_at DESC LIMIT :most

-- name: tally
SELECT type, COUNT(*) FILTER (WHERE phase = 'complete' AND verdict = 'success' AND reverted_at IS NULL) AS done, COUNT(*) AS total
FROM units WHERE archived_at IS NULL OR phase = 'complete' GROUP BY type

-- name: last_number
SELECT MAX(CAST(substr(id, length(:prefix) + 1) AS INTEGER)) AS n FROM units WHERE type = :type AND id GLOB :pattern

-- name: last_number @postgres
SELECT MAX(CAST(substring(substr(id, length(:prefix) + 1) FROM '^[0-9]+') AS BIGINT)) AS n FROM units
WHERE type = :type AND starts_with(id, :prefix)
