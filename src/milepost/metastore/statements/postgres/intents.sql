-- intent_read(owner, key)
-- The latest submission under a key, and the id that is stored there, from one moment; NULL where there is none.
SELECT n.submission, n.token, n.state, n.job, n.params, n.version, e.value, e.encoding
FROM (SELECT 1) AS one
LEFT JOIN milepost.intents AS n ON n.owner_id = :owner AND n.key = :key
LEFT JOIN milepost.entries AS e ON e.owner_id = :owner AND e.key = :key AND (e.expires_at IS NULL OR e.expires_at > :now)

-- intent_load(owner, key)
-- The latest submission under a key, and what the token of another is made of. The caller holds the instance.
SELECT n.submission, n.token, n.state, n.job, n.params, n.version, i.generation, r.incarnation, r.id, r.created_at
FROM milepost.instances AS i JOIN milepost.runs AS r ON r.id = i.run
LEFT JOIN milepost.intents AS n ON n.owner_id = i.id AND n.key = :key
WHERE i.id = :owner

-- intent_put!(owner, key, submission, generation, token, params, version, writer)
-- A job is about to be submitted.
INSERT INTO milepost.intents AS n (
    owner_id, key, submission, generation, token, state, job, params, version, writer, created_at, updated_at
)
VALUES (:owner, :key, :submission, :generation, :token, 'open', NULL, :params, :version, :writer, :now, :now)
ON CONFLICT (owner_id, key) DO UPDATE SET
    created_at = CASE WHEN n.submission = excluded.submission THEN n.created_at ELSE excluded.created_at END,
    submission = excluded.submission, generation = excluded.generation, token = excluded.token, state = excluded.state,
    job = NULL, params = excluded.params, version = excluded.version, writer = excluded.writer,
    updated_at = excluded.updated_at

-- intent_again!(owner, key, version, writer)
-- The same job is about to be submitted once more.
UPDATE milepost.intents SET version = :version, writer = :writer, updated_at = :now WHERE owner_id = :owner AND key = :key

-- intent_close!(owner, key, job, version)
-- The id is known.
UPDATE milepost.intents SET state = 'known', job = :job, version = :version, updated_at = :now
WHERE owner_id = :owner AND key = :key

-- intent_drop!(owner, key)
-- Whatever was submitted under the key is no longer wanted.
UPDATE milepost.intents SET state = 'dropped', updated_at = :now WHERE owner_id = :owner AND key = :key AND state <> 'dropped'

-- intent_drop_all!(owner)
-- The same for all keys of an instance.
UPDATE milepost.intents SET state = 'dropped', updated_at = :now WHERE owner_id = :owner AND state <> 'dropped'

-- intent_reopen!(owner)
-- A restore brings back what was cleared, and so the question whether these jobs exist.
UPDATE milepost.intents SET state = 'open', updated_at = :now WHERE owner_id = :owner AND state = 'dropped' AND job IS NULL

-- intent_delete!(owner)
-- The instance is removed.
DELETE FROM milepost.intents WHERE owner_id = :owner
