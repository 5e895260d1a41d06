-- instance_fence(id)
-- The fence in force and the state; no row: the instance is gone.
SELECT fence, state FROM milepost_instances WHERE id = :id

-- instance_share(id)
-- The same, held still until the transaction ends.
SELECT fence, state FROM milepost_instances WHERE id = :id LOCK IN SHARE MODE

-- instance_lock(id)
-- The same, and no other writer of the instance until the transaction ends.
SELECT fence, state FROM milepost_instances WHERE id = :id FOR UPDATE

-- instance_find(hash)
-- The number of an instance.
SELECT id FROM milepost_instances WHERE hash = :hash

-- instance_load(hash)
-- All that lifecycle calls decide on, which nobody else changes until the transaction ends.
SELECT i.id, i.run, i.fence, i.attempt, i.cleared_attempt, i.generation, i.state, i.item, i.clear_on_success, i.on_clear,
    r.incarnation
FROM milepost_instances AS i JOIN milepost_runs AS r ON r.id = i.run WHERE i.hash = :hash
FOR UPDATE

-- owner_new+(kind)
-- Draw the number of a new owner.
INSERT INTO milepost_owners (kind) VALUES (:kind)

-- instance_insert!(id, hash, run, task_id, map_index)
-- Record an instance that was never opened.
INSERT INTO milepost_instances (id, hash, run, task_id, map_index, created_at, updated_at)
VALUES (:id, :hash, :run, :task_id, :map_index, :now, :now)

-- instance_open!(id, fence, attempt, fresh, item, item_name, clear_on_success, on_clear)
-- Begin (fresh = 1) or resume (0) an attempt.
UPDATE milepost_instances SET
    fence = :fence, attempt = :attempt, state = 'running', item = :item, item_name = coalesce(:item_name, item_name),
    clear_on_success = CASE WHEN :fresh = 1 THEN :clear_on_success ELSE coalesce(:clear_on_success, clear_on_success) END,
    on_clear = CASE WHEN :fresh = 1 THEN :on_clear ELSE coalesce(:on_clear, on_clear) END,
    opened_at = CASE WHEN :fresh = 1 THEN :now ELSE opened_at END, finished_at = NULL, updated_at = :now
WHERE id = :id

-- instance_finish!(id, state)
-- Record how the attempt ended.
UPDATE milepost_instances SET state = :state, finished_at = :now, updated_at = :now WHERE id = :id

-- instance_clear!(id)
-- Start over: the fence rises and every attempt so far is stale; attempt numbers go on.
UPDATE milepost_instances SET
    fence = fence + 1, cleared_attempt = attempt, generation = generation + 1, state = 'cleared',
    finished_at = CASE WHEN opened_at IS NULL THEN NULL ELSE coalesce(finished_at, :now) END, updated_at = :now
WHERE id = :id

-- instance_reset!(id)
-- A new incarnation of the run: attempts count anew above a risen fence.
UPDATE milepost_instances SET
    fence = fence + 1, attempt = 0, cleared_attempt = 0, generation = generation + 1, state = 'none', item = NULL,
    item_name = NULL, clear_on_success = NULL, on_clear = NULL, opened_at = NULL, finished_at = NULL, updated_at = :now
WHERE id = :id

-- instances_of_run(run)
-- Numbers and scopes of the instances of a run, which nobody else changes or writes keys of until the transaction ends.
SELECT id, task_id, map_index, on_clear FROM milepost_instances WHERE run = :run ORDER BY task_id, map_index
FOR UPDATE

-- instances_of_task(run_hash, task_id)
-- Numbers of all instances of a task in a run.
SELECT i.id FROM milepost_runs AS r JOIN milepost_instances AS i ON i.run = r.id AND i.task_id = :task_id
WHERE r.hash = :run_hash ORDER BY i.map_index

-- instance_list(dag_id, run_id, task_id, map_index, state)
-- Records; NULL selects all.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, i.state, i.attempt, r.incarnation, i.item_name,
    i.created_at, i.opened_at, i.finished_at, i.updated_at
FROM milepost_runs AS r JOIN milepost_instances AS i ON i.run = r.id
WHERE (:dag_id IS NULL OR r.dag_id = :dag_id) AND (:run_id IS NULL OR r.run_id = :run_id)
  AND (:task_id IS NULL OR i.task_id = :task_id) AND (:map_index IS NULL OR i.map_index = :map_index)
  AND (:state IS NULL OR i.state = :state)
ORDER BY r.id, i.task_id, i.map_index

-- instance_get(hash)
-- The record of one instance.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, i.state, i.attempt, r.incarnation, i.item_name,
    i.created_at, i.opened_at, i.finished_at, i.updated_at
FROM milepost_instances AS i JOIN milepost_runs AS r ON r.id = i.run WHERE i.hash = :hash

-- instance_delete!(id)
-- Remove the record.
DELETE FROM milepost_instances WHERE id = :id

-- owner_delete!(id)
-- Retire a number.
DELETE FROM milepost_owners WHERE id = :id

-- past_run_latest(dag_id, run, task_id, map_index)
-- The latest run recorded before ours (NULL: any) in which this instance has live keys.
SELECT r.run_id, i.id, i.item FROM milepost_runs AS r
JOIN milepost_instances AS i ON i.run = r.id AND i.task_id = :task_id AND i.map_index = :map_index
WHERE r.dag_id = :dag_id AND (:run IS NULL OR r.id < :run)
  AND EXISTS (SELECT 1 FROM milepost_entries AS e WHERE e.owner_id = i.id AND (e.expires_at IS NULL OR e.expires_at > :now))
ORDER BY r.id DESC LIMIT 1

-- past_run_named(hash)
-- An instance by its scope: its run's number, its own, its item, and whether it has live keys.
SELECT i.run, i.id, i.item,
    EXISTS (SELECT 1 FROM milepost_entries AS e WHERE e.owner_id = i.id AND (e.expires_at IS NULL OR e.expires_at > :now))
FROM milepost_instances AS i WHERE i.hash = :hash

-- result_put!(owner, text)
-- Store what an attempt returned.
INSERT INTO milepost_results (owner_id, created_at, value) VALUES (:owner, :now, :text)
ON DUPLICATE KEY UPDATE created_at = VALUES(created_at), value = VALUES(value)

-- result_delete!(owner)
-- Drop a result.
DELETE FROM milepost_results WHERE owner_id = :owner

-- result_list(run_hash, task_id, map_index)
-- Results of a task by map index; NULL selects all.
SELECT i.map_index, v.value FROM milepost_runs AS r
JOIN milepost_instances AS i ON i.run = r.id AND i.task_id = :task_id AND (:map_index IS NULL OR i.map_index = :map_index)
JOIN milepost_results AS v ON v.owner_id = i.id
WHERE r.hash = :run_hash ORDER BY i.map_index

-- grant_get(instance)
-- How many tries its host had granted at the last opening.
SELECT max_tries FROM milepost_grants WHERE instance = :instance

-- grant_put!(instance, max_tries)
-- It grants this many by now.
INSERT INTO milepost_grants (instance, max_tries) VALUES (:instance, :max_tries)
ON DUPLICATE KEY UPDATE max_tries = :max_tries

-- grant_forget!(instance)
-- Drop that of an instance.
DELETE FROM milepost_grants WHERE instance = :instance

-- run_clears_get(run)
-- How often its host had cleared the run.
SELECT clears FROM milepost_run_clears WHERE run = :run

-- run_clears_put!(run, clears)
-- By now it has, this often.
INSERT INTO milepost_run_clears (run, clears) VALUES (:run, :clears)
ON DUPLICATE KEY UPDATE clears = :clears

-- run_clears_forget!(run)
-- Drop that of a run.
DELETE FROM milepost_run_clears WHERE run = :run

-- expansion_get(run, task_id)
-- Which computation of its list a mapped task's instances stand for.
SELECT expansion FROM milepost_expansions WHERE run = :run AND task_id = :task_id

-- expansion_put!(run, task_id, expansion)
-- They stand for this one from now on.
INSERT INTO milepost_expansions (run, task_id, expansion) VALUES (:run, :task_id, :expansion)
ON DUPLICATE KEY UPDATE expansion = :expansion

-- expansion_forget!(run)
-- Drop those of a run.
DELETE FROM milepost_expansions WHERE run = :run

-- instances_of_expansion(run, task_id)
-- The instances of a mapped task that were ever opened, with the fingerprints of their items.
SELECT id, map_index, item, state FROM milepost_instances WHERE run = :run AND task_id = :task_id AND map_index >= 0 AND attempt > 0
ORDER BY map_index
