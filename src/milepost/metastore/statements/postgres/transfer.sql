-- transfer_holdings()
-- Which tables hold rows: true or false for runs, assets, entries, changes, results and replaced incarnations.
SELECT EXISTS (SELECT 1 FROM milepost.runs), EXISTS (SELECT 1 FROM milepost.assets), EXISTS (SELECT 1 FROM milepost.entries),
    EXISTS (SELECT 1 FROM milepost.changes), EXISTS (SELECT 1 FROM milepost.results), EXISTS (SELECT 1 FROM milepost.replaced_incarnations)

-- transfer_runs(after, limit)
-- A page of runs in the order of recording. The first columns of a page say where the next one begins.
SELECT id, dag_id, run_id, incarnation, state, params, logical_date, created_at, updated_at FROM milepost.runs
WHERE id > :after ORDER BY id LIMIT :limit

-- transfer_instances(after, limit)
-- A page of instances.
SELECT i.id, r.dag_id, r.run_id, i.task_id, i.map_index, i.fence, i.attempt, i.cleared_attempt, i.generation, i.state,
    i.item, i.item_name, i.clear_on_success, i.on_clear, i.created_at, i.opened_at, i.finished_at, i.updated_at
FROM milepost.instances AS i LEFT JOIN milepost.runs AS r ON r.id = i.run
WHERE i.id > :after ORDER BY i.id LIMIT :limit

-- transfer_assets(after, limit)
-- A page of assets.
SELECT id, name, uri, active, created_at, updated_at FROM milepost.assets WHERE id > :after ORDER BY id LIMIT :limit

-- transfer_task_entries(owner, key, blob, limit)
-- A page of entries of task instances, and of owners that are gone (but for assets that are being swept). blob is always 0 here: keys are text.
SELECT e.owner_id, e.key, 0, r.dag_id, r.run_id, i.task_id, i.map_index,
    e.key, e.encoding, e.version, e.created_at, e.updated_at, e.expires_at, e.default_day, e.writer, e.value
FROM milepost.entries AS e LEFT JOIN milepost.instances AS i ON i.id = e.owner_id LEFT JOIN milepost.runs AS r ON r.id = i.run
WHERE (e.owner_id, e.key) > (:owner, :key) AND :blob = 0
  AND NOT EXISTS (SELECT 1 FROM milepost.assets AS a WHERE a.id = e.owner_id)
  AND NOT EXISTS (SELECT 1 FROM milepost.deactivations AS d WHERE d.asset = e.owner_id AND d.cause = 'swept')
ORDER BY e.owner_id, e.key LIMIT :limit

-- transfer_asset_entries(owner, key, blob, limit)
-- A page of entries of assets.
SELECT e.owner_id, e.key, 0, a.name, a.uri,
    e.key, e.encoding, e.version, e.created_at, e.updated_at, e.expires_at, e.default_day, e.writer, e.value
FROM milepost.entries AS e JOIN milepost.assets AS a ON a.id = e.owner_id
WHERE (e.owner_id, e.key) > (:owner, :key) AND :blob = 0
ORDER BY e.owner_id, e.key LIMIT :limit

-- transfer_changes(after, limit)
-- A page of the change log.
SELECT c.id, c.event, r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri, c.at, c.kind, c.cause, c.scope, c.writer,
    c.key, c.new_version, c.encoding, c.version, c.created_at, c.updated_at, c.expires_at, c.default_day, c.old_writer,
    c.value
FROM milepost.changes AS c LEFT JOIN milepost.instances AS i ON i.id = c.owner_id LEFT JOIN milepost.runs AS r ON r.id = i.run
LEFT JOIN milepost.assets AS a ON a.id = c.owner_id
WHERE c.id > :after
  AND NOT EXISTS (SELECT 1 FROM milepost.deactivations AS d WHERE d.asset = c.owner_id AND d.cause = 'swept')
ORDER BY c.id LIMIT :limit

-- transfer_results(after, limit)
-- A page of results.
SELECT v.owner_id, r.dag_id, r.run_id, i.task_id, i.map_index, v.created_at, v.value
FROM milepost.results AS v LEFT JOIN milepost.instances AS i ON i.id = v.owner_id LEFT JOIN milepost.runs AS r ON r.id = i.run
WHERE v.owner_id > :after ORDER BY v.owner_id LIMIT :limit

-- transfer_intents(owner, key, blob, limit)
-- A page of intents.
SELECT n.owner_id, n.key, 0, r.dag_id, r.run_id, i.task_id, i.map_index, n.key, n.submission, n.generation, n.token,
    n.state, n.job, n.params, n.version, n.writer, n.created_at, n.updated_at
FROM milepost.intents AS n LEFT JOIN milepost.instances AS i ON i.id = n.owner_id LEFT JOIN milepost.runs AS r ON r.id = i.run
WHERE (n.owner_id, n.key) > (:owner, :key) AND :blob = 0
ORDER BY n.owner_id, n.key LIMIT :limit

-- transfer_replaced(hash, incarnation, limit)
-- A page of replaced incarnations. Their runs may be gone, so that a hash is all that names them.
SELECT encode(run_hash, 'hex'), incarnation, encode(run_hash, 'hex'), incarnation, replaced_at FROM milepost.replaced_incarnations
WHERE run_hash >= :hash AND (run_hash > :hash OR incarnation COLLATE "C" > :incarnation)
ORDER BY run_hash, incarnation COLLATE "C" LIMIT :limit

-- transfer_run!(hash, dag_id, run_id, incarnation, state, params, logical_date, created_at, updated_at |)
-- Record a run as it was elsewhere.
INSERT INTO milepost.runs (hash, dag_id, run_id, incarnation, state, params, logical_date, created_at, updated_at)
VALUES {(:hash, :dag_id, :run_id, :incarnation, :state, :params, :logical_date, :created_at, :updated_at)}

-- transfer_instance!(id, hash, run_hash, task_id, map_index, fence, attempt, cleared_attempt, generation, state, item, item_name, clear_on_success, on_clear, created_at, opened_at, finished_at, updated_at |)
-- Record an instance.
INSERT INTO milepost.instances (
    id, hash, run, task_id, map_index, fence, attempt, cleared_attempt, generation, state, item, item_name,
    clear_on_success, on_clear, created_at, opened_at, finished_at, updated_at
)
VALUES {(
    :id, :hash, (SELECT id FROM milepost.runs WHERE hash = :run_hash), :task_id, :map_index, :fence, :attempt, :cleared_attempt,
    :generation, :state, :item, :item_name, :clear_on_success, :on_clear, :created_at, :opened_at, :finished_at, :updated_at
)}

-- transfer_asset!(id, hash, name, uri, active, created_at, updated_at |)
-- Record an asset.
INSERT INTO milepost.assets (id, hash, name, uri, active, created_at, updated_at)
VALUES {(:id, :hash, :name, :uri, :active, :created_at, :updated_at)}

-- transfer_entry!(hash, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value |)
-- Record an entry of the owner with that hash.
INSERT INTO milepost.entries (owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value)
VALUES {(
    (SELECT id FROM milepost.instances WHERE hash = :hash UNION ALL SELECT id FROM milepost.assets WHERE hash = :hash),
    :key, :encoding, :version, :created_at, :updated_at, :expires_at, :default_day, :writer, :value
)}

-- transfer_change!(event, hash, at, kind, cause, scope, writer, key, new_version, encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value |)
-- Record changes that no other change refers to.
INSERT INTO milepost.changes (
    event, owner_id, at, kind, cause, scope, writer, key, new_version,
    encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value
)
VALUES {(
    :event, (SELECT id FROM milepost.instances WHERE hash = :hash UNION ALL SELECT id FROM milepost.assets WHERE hash = :hash),
    :at, :kind, :cause, :scope, :writer, :key, :new_version,
    :encoding, :version, :created_at, :updated_at, :expires_at, :default_day, :old_writer, :value
)}

-- transfer_head+(hash, at, kind, cause, scope, writer, key, new_version, encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value)
-- Record a change that others refer to.
INSERT INTO milepost.changes (
    owner_id, at, kind, cause, scope, writer, key, new_version,
    encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value
)
VALUES (
    (SELECT id FROM milepost.instances WHERE hash = :hash UNION ALL SELECT id FROM milepost.assets WHERE hash = :hash),
    :at, :kind, :cause, :scope, :writer, :key, :new_version,
    :encoding, :version, :created_at, :updated_at, :expires_at, :default_day, :old_writer, :value
)
RETURNING id

-- transfer_own_event!(id)
-- Let a change belong to the group that it is the first of: the row that headed the group has been collected.
UPDATE milepost.changes SET event = id WHERE id = :id

-- transfer_result!(hash, created_at, value |)
-- Record a result.
INSERT INTO milepost.results (owner_id, created_at, value)
VALUES {((SELECT id FROM milepost.instances WHERE hash = :hash), :created_at, :value)}

-- transfer_intent!(hash, key, submission, generation, token, state, job, params, version, writer, created_at, updated_at |)
-- Record an intent.
INSERT INTO milepost.intents (
    owner_id, key, submission, generation, token, state, job, params, version, writer, created_at, updated_at
)
VALUES {(
    (SELECT id FROM milepost.instances WHERE hash = :hash),
    :key, :submission, :generation, :token, :state, :job, :params, :version, :writer, :created_at, :updated_at
)}

-- transfer_replace!(hash, incarnation, replaced_at |)
-- Record a replaced incarnation.
INSERT INTO milepost.replaced_incarnations (run_hash, incarnation, replaced_at) VALUES {(:hash, :incarnation, :replaced_at)}

-- transfer_references(asset, dag_id, direction, limit)
-- A page of references to assets. The asset's number and its next columns say where the next page begins.
SELECT r.asset, r.dag_id, r.direction, a.name, a.uri, r.dag_id, r.direction
FROM milepost.asset_references AS r JOIN milepost.assets AS a ON a.id = r.asset
WHERE (r.asset, r.dag_id, r.direction COLLATE "C") > (:asset, :dag_id, :direction)
ORDER BY r.asset, r.dag_id, r.direction COLLATE "C" LIMIT :limit

-- transfer_aliases(asset, alias, limit)
-- A page of what aliases stand for.
SELECT l.asset, l.alias, a.name, a.uri, l.alias FROM milepost.asset_aliases AS l JOIN milepost.assets AS a ON a.id = l.asset
WHERE (l.asset, l.alias COLLATE "C") > (:asset, :alias) ORDER BY l.asset, l.alias COLLATE "C" LIMIT :limit

-- transfer_deactivations(asset, limit)
-- A page of what is known of assets that are not active.
SELECT d.asset, a.name, a.uri, d.at, d.cause, d.writer FROM milepost.deactivations AS d JOIN milepost.assets AS a ON a.id = d.asset
WHERE d.asset > :asset ORDER BY d.asset LIMIT :limit

-- transfer_staged(instance, asset, key, limit)
-- A page of staged values.
SELECT s.instance, s.asset, s.key, r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri,
    s.key, s.fence, s.mode, s.encoding, s.version, s.staged_at, s.writer, s.value
FROM milepost.staged AS s LEFT JOIN milepost.instances AS i ON i.id = s.instance LEFT JOIN milepost.runs AS r ON r.id = i.run
LEFT JOIN milepost.assets AS a ON a.id = s.asset
WHERE (s.instance, s.asset, s.key) > (:instance, :asset, :key) ORDER BY s.instance, s.asset, s.key LIMIT :limit

-- transfer_reference!(hash, dag_id, direction |)
-- Record a reference.
INSERT INTO milepost.asset_references (asset, dag_id, direction)
VALUES {((SELECT id FROM milepost.assets WHERE hash = :hash), :dag_id, :direction)}

-- transfer_alias!(hash, alias_hash, alias |)
-- Record what an alias stands for.
INSERT INTO milepost.asset_aliases (asset, hash, alias)
VALUES {((SELECT id FROM milepost.assets WHERE hash = :hash), :alias_hash, :alias)}

-- transfer_deactivation!(hash, at, cause, writer |)
-- Record since when an asset is not active.
INSERT INTO milepost.deactivations (asset, at, cause, writer)
VALUES {((SELECT id FROM milepost.assets WHERE hash = :hash), :at, :cause, :writer)}

-- transfer_stage!(hash, asset_hash, key, fence, mode, encoding, version, staged_at, writer, value |)
-- Record a staged value.
INSERT INTO milepost.staged (instance, asset, key, fence, mode, encoding, version, staged_at, writer, value)
VALUES {(
    (SELECT id FROM milepost.instances WHERE hash = :hash), (SELECT id FROM milepost.assets WHERE hash = :asset_hash),
    :key, :fence, :mode, :encoding, :version, :staged_at, :writer, :value
)}

-- transfer_expansions(run, task_id, limit)
-- A page of expansions of mapped tasks.
SELECT x.run, x.task_id, r.dag_id, r.run_id, x.task_id, x.expansion
FROM milepost.expansions AS x JOIN milepost.runs AS r ON r.id = x.run
WHERE (x.run, x.task_id) > (:run, :task_id) ORDER BY x.run, x.task_id LIMIT :limit

-- transfer_outcomes(run, task_id, map_index, attempt, limit)
-- A page of outcomes.
SELECT o.run, o.task_id, o.map_index, o.attempt, r.dag_id, r.run_id, o.task_id, o.map_index, o.attempt, o.state, o.error, o.at
FROM milepost.outcomes AS o JOIN milepost.runs AS r ON r.id = o.run
WHERE (o.run, o.task_id, o.map_index, o.attempt) > (:run, :task_id, :map_index, :attempt)
ORDER BY o.run, o.task_id, o.map_index, o.attempt LIMIT :limit

-- transfer_expansion!(run_hash, task_id, expansion |)
-- Record an expansion.
INSERT INTO milepost.expansions (run, task_id, expansion)
VALUES {((SELECT id FROM milepost.runs WHERE hash = :run_hash), :task_id, :expansion)}

-- transfer_outcome!(run_hash, task_id, map_index, attempt, state, error, at |)
-- Record an outcome.
INSERT INTO milepost.outcomes (run, task_id, map_index, attempt, state, error, at)
VALUES {((SELECT id FROM milepost.runs WHERE hash = :run_hash), :task_id, :map_index, :attempt, :state, :error, :at)}

-- transfer_run_clears(run, limit)
-- A page of how often hosts have cleared runs.
SELECT c.run, r.dag_id, r.run_id, c.clears
FROM milepost.run_clears AS c JOIN milepost.runs AS r ON r.id = c.run
WHERE c.run > :run ORDER BY c.run LIMIT :limit

-- transfer_grants(instance, limit)
-- A page of how many tries hosts have granted instances.
SELECT g.instance, r.dag_id, r.run_id, i.task_id, i.map_index, g.max_tries
FROM milepost.grants AS g JOIN milepost.instances AS i ON i.id = g.instance JOIN milepost.runs AS r ON r.id = i.run
WHERE g.instance > :instance ORDER BY g.instance LIMIT :limit

-- transfer_run_clear!(run_hash, clears |)
-- Record how often its host has cleared a run.
INSERT INTO milepost.run_clears (run, clears)
VALUES {((SELECT id FROM milepost.runs WHERE hash = :run_hash), :clears)}

-- transfer_grant!(hash, max_tries |)
-- Record how many tries its host has granted an instance.
INSERT INTO milepost.grants (instance, max_tries)
VALUES {((SELECT id FROM milepost.instances WHERE hash = :hash), :max_tries)}
