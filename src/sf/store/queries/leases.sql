-- name: ready
SELECT * FROM units
WHERE phase_status IN ('pending','interrupted','failed') AND phase <> 'complete'
  AND archived_at IS NULL AND hold_kind IS NULL AND open_blockers = 0 AND open_children = 0
  AND parent_ready = 1 AND lane_open = 1 AND due_at IS NULL AND phase_rank = :rank
  AND (:station = '' OR COALESCE(station, :station) = :station)
ORDER BY COALESCE(priority, 1000000), created_at, id
LIMIT :most

-- name: ready_begun
SELECT * FROM units
WHERE phase_status IN ('pending','interrupted','failed') AND phase <> 'complete'
  AND archived_at IS NULL AND hold_kind IS NULL AND open_blockers = 0 AND open_children = 0
  AND parent_ready = 1 AND lane_open = 1 AND due_at IS NULL AND phase_rank = :rank
  AND (attempt > 0 OR base_commit IS NOT NULL OR EXISTS (SELECT 1 FROM units p
    WHERE p.id = units.parent_id AND p.type = 'slice' AND p.base_commit IS NOT NULL))
  AND (:station = '' OR COALESCE(station, :station) = :station)
ORDER BY COALESCE(priority, 1000000), created_at, id
LIMIT :most

-- name: wake_due
UPDATE units SET due_at = NULL, updated_at = :now WHERE due_at IS NOT NULL AND due_at <= :now AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: postpone
UPDATE units SET due_at = :due, updated_at = :now WHERE id = :id AND due_at IS NOT NULL

-- name: claim
UPDATE units
SET claim_holder = :holder, claim_until = :until, phase_status = 'running', attempt = attempt + 1,
    due_at = NULL, worker_host = :host, station = COALESCE(station, NULLIF(:station, '')), updated_at = :now
WHERE id = :id AND attempt = :attempt AND phase_status IN ('pending','interrupted','failed')
  AND (claim_holder IS NULL OR claim_until < :now) AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: renew
UPDATE units SET claim_until = :until WHERE claim_holder = :holder AND phase_status IN ('running','canceled')

-- name: holds_lease
SELECT 1 AS held FROM units WHERE id = :id AND attempt = :attempt AND claim_holder = :holder

-- name: expired
SELECT * FROM units
WHERE phase_status = 'running' AND claim_until < :now AND claim_holder <> :holder AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: running
SELECT * FROM units WHERE phase_status = 'running' AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: phases_run_by
SELECT id, phase FROM units WHERE phase_status = 'running' AND claim_holder = :holder

-- name: stranded
SELECT * FROM units WHERE phase_status = 'running'
  AND (:station = '' OR (COALESCE(station, :station) = :station AND (worker_host = :host OR claim_until < :now)))

-- name: canceled_with_claim
SELECT * FROM units WHERE phase_status = 'canceled' AND claim_holder IS NOT NULL AND (:station = '' OR COALESCE(station, :station) = :station)

-- name: given_up
SELECT * FROM units WHERE phase_status = 'canceled' AND claim_holder IS NOT NULL AND claim_until < :now
  AND :station <> '' AND station <> :station

-- name: release_claim
UPDATE units SET claim_holder = NULL, claim_until = NULL WHERE id = :id

-- name: merging_elsewhere
SELECT COUNT(*) AS n FROM units WHERE phase_status = 'running' AND phase = 'merge' AND id <> :id AND (:station = '' OR COALESCE(station, :station) = :station)
