-- name: look
SELECT
  (SELECT COUNT(*) FROM intents WHERE applied_at IS NULL) AS intents,
  (SELECT status FROM sessions WHERE status <> 'complete' ORDER BY id DESC LIMIT 1) AS session,
  (SELECT COUNT(*) FROM units WHERE phase_status = 'running' AND claim_until < :now AND claim_holder <> :holder
    AND (:station = '' OR COALESCE(station, :station) = :station)
    AND EXISTS (SELECT 1 FROM runs r WHERE r.unit_id_snap = units.id AND r.ended_at IS NULL)) AS expired,
  (SELECT MIN(claim_until) FROM units WHERE phase_status = 'running' AND claim_until >= :now AND claim_holder <> :holder
    AND (:station = '' OR COALESCE(station, :station) = :station)) AS claim_due,
  (SELECT MIN(due_at) FROM units WHERE due_at IS NOT NULL
    AND (:station = '' OR COALESCE(station, :station) = :station)) AS unit_due,
  (SELECT COUNT(*) FROM attention WHERE closed_at IS NULL) AS questions,
  (SELECT MIN(due_at) FROM attention WHERE closed_at IS NULL AND due_at IS NOT NULL
    AND (:station = '' OR COALESCE((SELECT u.station FROM units u WHERE u.id = attention.unit_id), :station) = :station))
    AS question_due,
  (SELECT COUNT(*) FROM units u WHERE u.phase_status = 'canceled' AND u.claim_holder IS NOT NULL AND u.claim_holder = :holder
    AND EXISTS (SELECT 1 FROM runs r WHERE r.unit_id_snap = u.id AND r.ended_at IS NULL)) AS called_off,
  (SELECT COUNT(*) FROM units WHERE archived_at IS NOT NULL AND wound_up_at IS NULL AND base_commit IS NOT NULL
    AND (:station = '' OR COALESCE(station, :station) = :station)) AS to_put_away
