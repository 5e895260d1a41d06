-- run_find(hash)
-- The number of a run.
SELECT id FROM milepost_runs WHERE hash = :hash

-- run_load(hash)
-- Number, incarnation, state and holder of a run, which nobody else changes until the transaction ends.
SELECT id, incarnation, state, holder, held_until > :now FROM milepost_runs WHERE hash = :hash FOR UPDATE

-- run_insert+(hash, dag_id, run_id, incarnation, params, logical_date)
-- Record a run.
INSERT INTO milepost_runs (hash, dag_id, run_id, incarnation, params, logical_date, created_at, updated_at)
VALUES (:hash, :dag_id, :run_id, :incarnation, :params, :logical_date, :now, :now)

-- run_set_incarnation!(id, incarnation)
-- Another incarnation takes the place; how the old one stood is forgotten.
UPDATE milepost_runs SET incarnation = :incarnation, state = NULL, updated_at = :now WHERE id = :id

-- run_was_opened(id)
-- Whether any attempt of the run was ever opened.
SELECT EXISTS (SELECT 1 FROM milepost_instances WHERE run = :id AND attempt > 0)

-- incarnation_is_replaced(hash, incarnation)
-- A row if the incarnation is stale for good.
SELECT 1 FROM milepost_replaced_incarnations WHERE run_hash = :hash AND incarnation = :incarnation

-- incarnation_replace!(hash, incarnation)
-- Remember one as stale for good.
INSERT INTO milepost_replaced_incarnations (run_hash, incarnation, replaced_at) VALUES (:hash, :incarnation, :now)
ON DUPLICATE KEY UPDATE replaced_at = milepost_replaced_incarnations.replaced_at

-- run_take!(id, holder, ttl, params, logical_date)
-- A runner takes the run; parameters stay as they were first given.
UPDATE milepost_runs SET holder = :holder, held_until = :now + :ttl, state = 'running', params = coalesce(params, :params),
    logical_date = coalesce(logical_date, :logical_date), updated_at = :now
WHERE id = :id

-- run_hold!(hash, holder, ttl, state)
-- Renew (ttl) or give up (ttl NULL) a hold.
UPDATE milepost_runs SET
    held_until = :now + :ttl, holder = CASE WHEN :ttl IS NULL THEN NULL ELSE holder END,
    state = coalesce(:state, state), updated_at = :now
WHERE hash = :hash AND holder = :holder

-- run_reopen!(id)
-- A clear makes a finished run unfinished.
UPDATE milepost_runs SET state = CASE WHEN holder IS NULL THEN NULL ELSE state END, updated_at = :now WHERE id = :id

-- run_delete!(id)
-- Remove the record.
DELETE FROM milepost_runs WHERE id = :id

-- run_list(dag_id, run_id, state, limit)
-- Records, latest first; NULL selects all.
SELECT r.dag_id, r.run_id, r.incarnation, r.state, r.params, r.logical_date, r.holder, r.held_until, r.created_at,
    r.updated_at, e.event_id, e.watcher, a.name, a.uri
FROM milepost_runs AS r LEFT JOIN milepost_event_runs AS s ON s.run = r.id LEFT JOIN milepost_events AS e ON e.id = s.event
LEFT JOIN milepost_assets AS a ON a.id = e.asset
WHERE (:dag_id IS NULL OR r.dag_id = :dag_id) AND (:run_id IS NULL OR r.run_id = :run_id)
  AND (:state IS NULL OR r.state = :state)
ORDER BY r.id DESC LIMIT :limit

-- run_get(hash)
-- The record of one run.
SELECT r.dag_id, r.run_id, r.incarnation, r.state, r.params, r.logical_date, r.holder, r.held_until, r.created_at,
    r.updated_at, e.event_id, e.watcher, a.name, a.uri
FROM milepost_runs AS r LEFT JOIN milepost_event_runs AS s ON s.run = r.id LEFT JOIN milepost_events AS e ON e.id = s.event
LEFT JOIN milepost_assets AS a ON a.id = e.asset
WHERE r.hash = :hash
