-- name: all
SELECT root_commit FROM repository_roots ORDER BY recorded_at, root_commit

-- name: record
INSERT INTO repository_roots (root_commit, recorded_at) VALUES (:root, :now) ON CONFLICT DO NOTHING

-- name: has_worked
SELECT 1 AS found FROM units WHERE station = :station LIMIT 1
