-- name: ask
INSERT INTO attention (id, session_id, unit_id, blocker_id, kind, question, data, default_answer, due_at, created_at)
VALUES (:id, :session, :unit, :blocker, :kind, :question, :data, :default, :due, :now)

-- name: open
SELECT * FROM attention WHERE closed_at IS NULL ORDER BY id

-- name: open_of_unit
SELECT * FROM attention WHERE closed_at IS NULL AND unit_id = :unit ORDER BY id

-- name: reword
UPDATE attention SET question = :question, data = :data WHERE id = :id AND closed_at IS NULL

-- name: reopen
UPDATE attention SET closed_at = NULL, answered_by = NULL, session_id = :session WHERE id = :id AND answer IS NULL

-- name: postpone
UPDATE attention SET due_at = :due, created_at = :now WHERE id = :id AND closed_at IS NULL

-- name: drop_default
UPDATE attention SET due_at = NULL, default_answer = NULL WHERE id = :id AND closed_at IS NULL

-- name: close
UPDATE attention SET closed_at = :now, answer = :answer, answered_by = :by WHERE id = :id AND closed_at IS NULL

-- name: close_unit
UPDATE attention SET closed_at = :now, answered_by = :by WHERE unit_id = :unit AND closed_at IS NULL

-- name: close_kind
UPDATE attention SET closed_at = :now, answered_by = :by WHERE kind = :kind AND closed_at IS NULL

-- name: last_of_unit
SELECT * FROM attention WHERE unit_id = :unit AND kind = :kind ORDER BY id DESC LIMIT 1
