-- name: children
SELECT * FROM units WHERE parent_id = :id ORDER BY created_at, id

-- name: count_children
SELECT COUNT(*) AS n FROM units WHERE parent_id = :id

-- name: add_children
UPDATE units SET open_children = open_children + :n, updated_at = :now WHERE id = :id

-- name: ready_children
UPDATE units SET parent_ready = :ready WHERE parent_id = :id

-- name: take_lane
UPDATE units SET lane_owner = :task WHERE id = :slice AND (lane_owner IS NULL OR lane_owner = :task)

-- name: lane_owner
SELECT lane_owner FROM units WHERE id = :id

-- name: free_lane
UPDATE units SET lane_owner = NULL WHERE id = :slice AND lane_owner = :task

-- name: close_lane
UPDATE units SET lane_open = 0 WHERE parent_id = :slice AND id <> :task AND lane_open = 1

-- name: open_lane
UPDATE units SET lane_open = 1 WHERE parent_id = :slice AND lane_open = 0

-- name: forget_blockers
DELETE FROM task_blockers WHERE task_id = :id

-- name: no_blockers
UPDATE units SET open_blockers = 0 WHERE id = :id

-- name: ties
SELECT (SELECT COUNT(*) FROM session_blockers WHERE unit_id = :id AND resolved_at IS NULL)
  + (SELECT COUNT(*) FROM attention WHERE unit_id = :id AND closed_at IS NULL) AS questions,
  (SELECT COUNT(*) FROM task_blockers WHERE blocked_by = :id) AS dependents

-- name: downstream
SELECT u.id FROM task_blockers b JOIN units u ON u.id = b.task_id WHERE b.blocked_by = :id ORDER BY u.created_at, u.id

-- name: upstream
SELECT u.* FROM task_blockers b JOIN units u ON u.id = b.blocked_by WHERE b.task_id = :id ORDER BY u.created_at, u.id

-- name: unblock
UPDATE units SET open_blockers = open_blockers - 1, updated_at = :now WHERE id = :id AND open_blockers > 0
