-- name: enqueue
INSERT INTO pending_retain (id, bank, payload, next_retry_at, created_at) VALUES (:id, :bank, :payload, :now, :now)

-- name: due
SELECT * FROM pending_retain WHERE (next_retry_at <= :now OR next_retry_at > :latest)
  AND (:mark = '' OR substr(payload, 1, 11) <> '{"station":' OR substr(payload, 1, length(:mark)) = :mark)
ORDER BY id LIMIT :most

-- name: bind
UPDATE pending_retain SET payload = :mark || substr(payload, 2) WHERE substr(payload, 1, 11) <> '{"station":'

-- name: leave_foreign
DELETE FROM pending_retain
WHERE substr(payload, 1, 11) = '{"station":' AND substr(payload, 1, length(:mark)) <> :mark

-- name: unbind
UPDATE pending_retain SET payload = '{' || substr(payload, length(:mark) + 1) WHERE substr(payload, 1, length(:mark)) = :mark

-- name: next_due
SELECT MIN(next_retry_at) AS due FROM pending_retain

-- name: count
SELECT COUNT(*) AS n, MIN(created_at) AS oldest, MAX(last_error) AS error FROM pending_retain

-- name: postpone
UPDATE pending_retain SET attempts = attempts + 1, next_retry_at = :due, last_error = :error WHERE id = :id

-- name: delivered
DELETE FROM pending_retain WHERE id = :id

-- name: older
SELECT * FROM pending_retain WHERE created_at < :before
  AND (substr(payload, 1, 11) <> '{"station":' OR substr(payload, 1, length(:mark)) = :mark)
ORDER BY id

-- name: mirror
INSERT INTO local_anti_patterns (id, description, context, correct_path, source_unit, fingerprint, created_at)
VALUES (:id, :description, :context, :correct_path, :source_unit, :fingerprint, :now)
ON CONFLICT (id) DO UPDATE SET description = excluded.description, context = excluded.context,
  correct_path = CASE WHEN excluded.correct_path = '' THEN local_anti_patterns.correct_path ELSE excluded.correct_path END,
  synced_at = NULL

-- name: synced
UPDATE local_anti_patterns SET synced_at = :now WHERE id = :id

-- name: unmirror
DELETE FROM local_anti_patterns WHERE id = :id

-- name: mirrored
SELECT * FROM local_anti_patterns WHERE :all = 1 OR synced_at IS NULL ORDER BY created_at DESC, id LIMIT :most

-- name: mirrored_of
SELECT * FROM local_anti_patterns WHERE source_unit = :unit ORDER BY created_at, id

-- name: recalled
INSERT INTO recalls (run_id, unit_id, bank, entry_id, place) VALUES (:run, :unit, :bank, :entry, :place)
ON CONFLICT (run_id, entry_id) DO NOTHING

-- name: recalled_for
SELECT DISTINCT bank, entry_id FROM recalls WHERE unit_id = :unit

-- name: open_chapter
INSERT INTO chapters (id, unit_id, run_id, name, opened_at) VALUES (:id, :unit, :run, :name, :now)

-- name: close_chapter
UPDATE chapters SET closed_at = :now, intent = :intent, outcome = :outcome, span_ids = :spans
WHERE id = :id AND closed_at IS NULL

-- name: chapters_of
SELECT * FROM chapters WHERE unit_id = :unit ORDER BY id
