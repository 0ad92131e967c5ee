-- name: newest
SELECT MAX(id) AS id FROM (
  SELECT MAX(id) AS id FROM sessions WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM runs WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM phase_transitions WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM feedback WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM gate_results WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM evidence WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM session_blockers WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM attention WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM intents WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM spend WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM pending_retain WHERE id < '8'
  UNION ALL SELECT MAX(id) FROM chapters WHERE id < '8'
) AS each_table
