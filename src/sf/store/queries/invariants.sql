-- name: units
SELECT id, type, phase, phase_status, parent_id, attempt, phase_rank, open_blockers, open_children, parent_ready,
  lane_open, lane_owner, due_at, hold_kind, verdict, claim_holder, claim_until, archived_at
FROM units

-- name: upstream
SELECT task_id, blocked_by FROM task_blockers

-- name: live
SELECT id, unit_id_snap AS unit_id, attempt FROM runs WHERE ended_at IS NULL AND run_kind = 'unit_attempt'

-- name: blockers
SELECT id, unit_id, event FROM session_blockers WHERE resolved_at IS NULL AND unit_id IS NOT NULL

-- name: questions
SELECT id, unit_id, kind FROM attention WHERE closed_at IS NULL AND unit_id IS NOT NULL

-- name: accounts
SELECT scope, key, spent_micro_usd AS spent, reserved_micro_usd AS reserved FROM spend_accounts

-- name: entries_of_unit
SELECT unit_id AS key, CAST(SUM(COALESCE(cost_micro_usd, 0)) AS BIGINT) AS spent,
  CAST(SUM(CASE WHEN settled_at IS NULL THEN estimate_micro_usd ELSE 0 END) AS BIGINT) AS reserved
FROM spend GROUP BY unit_id

-- name: entries_of_milestone
SELECT milestone_id AS key, CAST(SUM(COALESCE(cost_micro_usd, 0)) AS BIGINT) AS spent,
  CAST(SUM(CASE WHEN settled_at IS NULL THEN estimate_micro_usd ELSE 0 END) AS BIGINT) AS reserved
FROM spend GROUP BY milestone_id

-- name: entries_of_session
SELECT session_id AS key, CAST(SUM(COALESCE(cost_micro_usd, 0)) AS BIGINT) AS spent,
  CAST(SUM(CASE WHEN settled_at IS NULL THEN estimate_micro_usd ELSE 0 END) AS BIGINT) AS reserved
FROM spend GROUP BY session_id

-- name: reserving
SELECT DISTINCT run_id FROM spend WHERE settled_at IS NULL

-- name: set_open_children
UPDATE units SET open_children = :value WHERE id = :id

-- name: set_open_blockers
UPDATE units SET open_blockers = :value WHERE id = :id

-- name: set_parent_ready
UPDATE units SET parent_ready = :value WHERE id = :id

-- name: set_lane_open
UPDATE units SET lane_open = :value WHERE id = :id

-- name: set_lane_owner
UPDATE units SET lane_owner = :value WHERE id = :id

-- name: set_phase_rank
UPDATE units SET phase_rank = :value WHERE id = :id

-- name: set_due_at
UPDATE units SET due_at = :value WHERE id = :id

-- name: set_hold_kind
UPDATE units SET hold_kind = :value WHERE id = :id

-- name: set_phase_status
UPDATE units SET phase_status = :value WHERE id = :id

-- name: set_archived_at
UPDATE units SET archived_at = :value, wound_up_at = NULL WHERE id = :id

-- name: set_claim_holder
UPDATE units SET claim_holder = :value, claim_until = NULL WHERE id = :id

-- name: set_balance
INSERT INTO spend_accounts (scope, key, spent_micro_usd, reserved_micro_usd, allowance_micro_usd)
VALUES (:scope, :key, :spent, :reserved, 0)
ON CONFLICT (scope, key) DO UPDATE SET
  spent_micro_usd = excluded.spent_micro_usd, reserved_micro_usd = excluded.reserved_micro_usd
