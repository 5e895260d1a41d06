-- entry_page(owner, low, high, limit, offset)
-- A page of live rows in [low, high), by code point. The bound is one that an index can use: with OR it would not be.
SELECT key, value, encoding, version, created_at, updated_at, expires_at, default_day, writer FROM milepost.entries
WHERE owner_id = :owner AND key >= :low AND key < coalesce(:high, repeat(chr(1114111), 513))
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key LIMIT :limit OFFSET :offset

-- entry_counts(owners, low, high)
-- How many live rows in [low, high) each owner of a JSON array has; those without any are left out.
SELECT owner_id, count(*) FROM milepost.entries
WHERE owner_id IN (SELECT CAST(jsonb_array_elements_text(CAST(:owners AS jsonb)) AS bigint))
  AND key >= :low AND key < coalesce(:high, repeat(chr(1114111), 513)) AND (expires_at IS NULL OR expires_at > :now)
GROUP BY owner_id

-- entry_count_range(owner, low, high)
-- How many live rows in [low, high) an owner has.
SELECT count(*) FROM milepost.entries
WHERE owner_id = :owner AND key >= :low AND key < coalesce(:high, repeat(chr(1114111), 513))
  AND (expires_at IS NULL OR expires_at > :now)

-- entry_expire!(owner, key, expires_at)
-- Let a row that was just written expire at an instant.
UPDATE milepost.entries SET expires_at = :expires_at, default_day = NULL WHERE owner_id = :owner AND key = :key

-- instances_and_indices(run_hash, task_id)
-- Numbers and map indices of all instances of a task in a run.
SELECT i.id, i.map_index FROM milepost.runs AS r JOIN milepost.instances AS i ON i.run = r.id AND i.task_id = :task_id
WHERE r.hash = :run_hash ORDER BY i.map_index

-- run_page(state, low, high, before, limit)
-- A page of runs, latest first; NULL selects all.
SELECT r.id, r.dag_id, r.run_id, r.incarnation, r.state, r.params, r.logical_date, r.holder, r.held_until, r.created_at,
    r.updated_at, e.event_id, e.watcher, a.name, a.uri
FROM milepost.runs AS r LEFT JOIN milepost.event_runs AS s ON s.run = r.id LEFT JOIN milepost.events AS e ON e.id = s.event
LEFT JOIN milepost.assets AS a ON a.id = e.asset
WHERE (:state IS NULL OR r.state = :state) AND r.run_id >= :low AND (:high IS NULL OR r.run_id < :high)
  AND r.id < :before
ORDER BY r.id DESC LIMIT :limit

-- run_page_of_dag(dag_id, state, low, high, before, limit)
-- The same, of one DAG.
SELECT r.id, r.dag_id, r.run_id, r.incarnation, r.state, r.params, r.logical_date, r.holder, r.held_until, r.created_at,
    r.updated_at, e.event_id, e.watcher, a.name, a.uri
FROM milepost.runs AS r LEFT JOIN milepost.event_runs AS s ON s.run = r.id LEFT JOIN milepost.events AS e ON e.id = s.event
LEFT JOIN milepost.assets AS a ON a.id = e.asset
WHERE r.dag_id = :dag_id AND (:state IS NULL OR r.state = :state) AND r.run_id >= :low AND (:high IS NULL OR r.run_id < :high)
  AND r.id < :before
ORDER BY r.id DESC LIMIT :limit

-- instance_page(run_hash, task_id, state, after_task, after_index, limit)
-- A page of the instances of a run; NULL selects all.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, i.state, i.attempt, r.incarnation, i.item_name,
    i.created_at, i.opened_at, i.finished_at, i.updated_at
FROM milepost.runs AS r JOIN milepost.instances AS i ON i.run = r.id
WHERE r.hash = :run_hash AND (:task_id IS NULL OR i.task_id = :task_id) AND (:state IS NULL OR i.state = :state)
  AND i.task_id >= :after_task AND (i.task_id > :after_task OR i.map_index > :after_index)
ORDER BY i.task_id, i.map_index LIMIT :limit
