-- name: open
INSERT INTO spend (id, run_id, unit_id, milestone_id, session_id, phase, model, estimate_micro_usd, opened_at)
VALUES (:id, :run, :unit, :milestone, :session, :phase, :model, :estimate, :now)

-- name: enter
INSERT INTO spend (id, run_id, unit_id, milestone_id, session_id, phase, model, estimate_micro_usd, cost_micro_usd,
  input_tokens, output_tokens, how, opened_at, settled_at)
VALUES (:id, :run, :unit, :milestone, :session, :phase, :model, 0, :cost,
  :input_tokens, :output_tokens, 'answered', :now, :now)

-- name: get
SELECT * FROM spend WHERE id = :id

-- name: close
UPDATE spend SET cost_micro_usd = :cost, input_tokens = :input_tokens, output_tokens = :output_tokens,
  how = :how, settled_at = :now
WHERE id = :id AND settled_at IS NULL

-- name: open_of_run
SELECT * FROM spend WHERE run_id = :run AND settled_at IS NULL ORDER BY id

-- name: booked_of_run
SELECT id FROM spend WHERE run_id = :run AND id > :run AND model <> '' AND how <> 'refused' LIMIT 1

-- name: promised
INSERT INTO spend (id, run_id, unit_id, milestone_id, session_id, phase, model, estimate_micro_usd, cost_micro_usd,
  how, opened_at, settled_at)
VALUES (:id, :run, :unit, :milestone, :session, :phase, '', :amount, 0, 'refused', :now, :now)

-- name: promise_of_run
SELECT held.*,
  CAST((SELECT MAX(whole.estimate_micro_usd) FROM spend whole
   WHERE whole.run_id = :run AND whole.id > :run AND whole.model = '' AND whole.settled_at IS NOT NULL)
  - (SELECT COALESCE(SUM(COALESCE(s.cost_micro_usd, s.estimate_micro_usd)), 0) FROM spend s
     WHERE s.run_id = :run AND s.id > :run AND s.id > held.id AND s.model <> '') AS BIGINT) AS unused
FROM spend held WHERE held.run_id = :run AND held.settled_at IS NULL AND held.model = ''

-- name: adjust
UPDATE spend SET estimate_micro_usd = estimate_micro_usd + :by WHERE id = :id

-- name: drop_promise
DELETE FROM spend WHERE run_id = :run AND id > :run AND model = ''

-- name: account
SELECT * FROM spend_accounts WHERE scope = :scope AND key = :key

-- name: post
INSERT INTO spend_accounts (scope, key, spent_micro_usd, reserved_micro_usd, allowance_micro_usd)
VALUES (:scope, :key, :spent, :reserved, :allowance)
ON CONFLICT (scope, key) DO UPDATE SET
  spent_micro_usd = spend_accounts.spent_micro_usd + excluded.spent_micro_usd,
  reserved_micro_usd = spend_accounts.reserved_micro_usd + excluded.reserved_micro_usd,
  allowance_micro_usd = spend_accounts.allowance_micro_usd + excluded.allowance_micro_usd

-- name: by_unit
SELECT s.unit_id AS name, MAX(u.title) AS title, COUNT(*) AS requests, SUM(s.input_tokens) AS input_tokens,
  SUM(s.output_tokens) AS output_tokens, SUM(COALESCE(s.cost_micro_usd, s.estimate_micro_usd)) AS cost_micro_usd
FROM spend s LEFT JOIN units u ON u.id = s.unit_id
WHERE s.opened_at >= :since AND s.model <> '' GROUP BY s.unit_id ORDER BY 6 DESC, 1

-- name: by_phase
SELECT phase AS name, '' AS title, COUNT(*) AS requests, SUM(input_tokens) AS input_tokens,
  SUM(output_tokens) AS output_tokens, SUM(COALESCE(cost_micro_usd, estimate_micro_usd)) AS cost_micro_usd
FROM spend WHERE opened_at >= :since AND model <> '' GROUP BY phase ORDER BY 6 DESC, 1

-- name: by_model
SELECT model AS name, '' AS title, COUNT(*) AS requests, SUM(input_tokens) AS input_tokens,
  SUM(output_tokens) AS output_tokens, SUM(COALESCE(cost_micro_usd, estimate_micro_usd)) AS cost_micro_usd
FROM spend WHERE opened_at >= :since AND model <> '' GROUP BY model ORDER BY 6 DESC, 1

-- name: by_day
SELECT opened_at / 86400000 AS day, COUNT(*) AS requests, SUM(input_tokens) AS input_tokens,
  SUM(output_tokens) AS output_tokens, SUM(COALESCE(cost_micro_usd, estimate_micro_usd)) AS cost_micro_usd
FROM spend WHERE opened_at >= :since AND model <> '' GROUP BY 1 ORDER BY 1

-- name: endings
SELECT how, COUNT(*) AS requests, SUM(COALESCE(cost_micro_usd, estimate_micro_usd)) AS cost_micro_usd,
  SUM(CASE WHEN cost_micro_usd IS NULL AND settled_at IS NOT NULL THEN 1 ELSE 0 END) AS unpriced
FROM spend WHERE opened_at >= :since AND model <> '' GROUP BY how
