-- entry_get(owner, key)
-- Text and encoding of a live key: the hot read.
SELECT value, encoding FROM milepost.entries
WHERE owner_id = :owner AND key = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_get_running(owner, key, instance, fence)
-- The same, only while the attempt that holds the fence runs.
SELECT value, encoding FROM milepost.entries
WHERE owner_id = :owner AND key = :key AND (expires_at IS NULL OR expires_at > :now)
    AND EXISTS (SELECT 1 FROM milepost.instances WHERE id = :instance AND fence = :fence AND state = 'running')

-- entry_read(owner, key)
-- The whole live row.
SELECT key, value, encoding, version, created_at, updated_at, expires_at, default_day, writer FROM milepost.entries
WHERE owner_id = :owner AND key = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_get_many(owner, keys)
-- The live ones of a JSON array of keys.
SELECT key, value, encoding FROM milepost.entries
WHERE owner_id = :owner AND key IN (SELECT jsonb_array_elements_text(CAST(:keys AS jsonb))) AND (expires_at IS NULL OR expires_at > :now)

-- entry_keys(owner, low, high)
-- Live keys in [low, high), by code point; high NULL: no bound.
SELECT key FROM milepost.entries
WHERE owner_id = :owner AND key >= :low AND (:high IS NULL OR key < :high)
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key

-- entry_first(owner, limit)
-- The first live keys, by code point.
SELECT key FROM milepost.entries WHERE owner_id = :owner AND (expires_at IS NULL OR expires_at > :now) ORDER BY key LIMIT :limit

-- entry_items(owner, low, high)
-- Live rows in [low, high), by code point.
SELECT key, value, encoding, version, created_at, updated_at, expires_at, default_day, writer FROM milepost.entries
WHERE owner_id = :owner AND key >= :low AND (:high IS NULL OR key < :high)
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key

-- entry_count(owner)
-- How many keys are live.
SELECT count(*) FROM milepost.entries WHERE owner_id = :owner AND (expires_at IS NULL OR expires_at > :now)

-- entry_put_fenced!(owner, fence, key, text, encoding, version, retention, writer)
-- The hot write: one statement that also checks the fence (NULL: only that the instance exists). No row: not written.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now / 86400000000 END,
    :writer, :text
FROM (SELECT 1 FROM milepost.instances WHERE id = :owner AND (:fence IS NULL OR fence = :fence) FOR SHARE) AS held
ON CONFLICT (owner_id, key) DO UPDATE SET
    encoding = excluded.encoding, version = excluded.version,
    created_at = CASE WHEN entries.expires_at <= excluded.updated_at THEN excluded.created_at ELSE entries.created_at END,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, default_day = excluded.default_day,
    writer = excluded.writer, value = excluded.value

-- entry_put_running!(owner, fence, key, text, encoding, version, retention, writer)
-- The same, only while the attempt that holds the fence runs.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now / 86400000000 END,
    :writer, :text
FROM (SELECT 1 FROM milepost.instances WHERE id = :owner AND fence = :fence AND state = 'running' FOR SHARE) AS held
ON CONFLICT (owner_id, key) DO UPDATE SET
    encoding = excluded.encoding, version = excluded.version,
    created_at = CASE WHEN entries.expires_at <= excluded.updated_at THEN excluded.created_at ELSE entries.created_at END,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, default_day = excluded.default_day,
    writer = excluded.writer, value = excluded.value

-- entry_put_all!(owner, fence, running, items, retention, writer)
-- The hot write of several keys, in their order: a JSON array of [key, text, encoding, version] arrays, no key twice. It
-- checks the fence (NULL: only that the instance exists) and, with running 1, that the attempt runs.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, item ->> 0, CAST(item ->> 2 AS bigint), item ->> 3, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now / 86400000000 END,
    :writer, item ->> 1
FROM
    (
        SELECT 1 FROM milepost.instances
        WHERE id = :owner AND (:fence IS NULL OR fence = :fence) AND (:running = 0 OR state = 'running')
        FOR SHARE
    ) AS held,
    json_array_elements(CAST(:items AS json)) AS items (item)
ORDER BY (item ->> 0) COLLATE "C"
ON CONFLICT (owner_id, key) DO UPDATE SET
    encoding = excluded.encoding, version = excluded.version,
    created_at = CASE WHEN entries.expires_at <= excluded.updated_at THEN excluded.created_at ELSE entries.created_at END,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, default_day = excluded.default_day,
    writer = excluded.writer, value = excluded.value

-- entry_put!(key, text, encoding, version | owner, retention, writer)
-- Write or overwrite; the caller has checked owner and fence in this transaction. Over an expired row it is a create.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
VALUES {(
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now / 86400000000 END,
    :writer, :text
)}
ON CONFLICT (owner_id, key) DO UPDATE SET
    encoding = excluded.encoding, version = excluded.version,
    created_at = CASE WHEN entries.expires_at <= excluded.updated_at THEN excluded.created_at ELSE entries.created_at END,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, default_day = excluded.default_day,
    writer = excluded.writer, value = excluded.value

-- entry_lock(owner, key)
-- Value, encoding and version of a live key, which nobody else changes until the transaction ends.
SELECT value, encoding, version FROM milepost.entries
WHERE owner_id = :owner AND key = :key AND (expires_at IS NULL OR expires_at > :now)
FOR UPDATE

-- entry_insert!(owner, key, text, encoding, version, retention, writer)
-- Write only if the key is absent or expired; no row: it is there.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
VALUES (
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now / 86400000000 END,
    :writer, :text
)
ON CONFLICT (owner_id, key) DO UPDATE SET
    encoding = excluded.encoding, version = excluded.version, created_at = excluded.created_at,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at, default_day = excluded.default_day,
    writer = excluded.writer, value = excluded.value
WHERE entries.expires_at <= excluded.updated_at

-- entry_replace!(owner, key, text, encoding, version, writer)
-- Overwrite a row and leave its expiry as it is; a governed row is governed from now on.
UPDATE milepost.entries SET
    encoding = :encoding, version = :version, updated_at = :now,
    default_day = CASE WHEN default_day IS NOT NULL THEN :now / 86400000000 END,
    writer = :writer, value = :text
WHERE owner_id = :owner AND key = :key

-- entry_touch!(owner, key, retention)
-- Move the expiry of a live row; value and version stay.
UPDATE milepost.entries SET
    updated_at = :now,
    expires_at = CASE WHEN :retention > 0 THEN :now + :retention END,
    default_day = CASE WHEN :retention IS NULL THEN :now / 86400000000 END
WHERE owner_id = :owner AND key = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_delete!(owner, key)
-- Drop a row, live or expired.
DELETE FROM milepost.entries WHERE owner_id = :owner AND key = :key

-- entry_clear!(owner)
-- Drop all rows of an owner.
DELETE FROM milepost.entries WHERE owner_id = :owner

-- entry_restore!(owner, change, version, writer)
-- Bring the row of a change back, if it has not expired meanwhile. A restore is a write: it has its own version. What
-- someone damaged comes back as a damaged row, encoding -1.
INSERT INTO milepost.entries AS entries (
    owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, key, coalesce(encoding, -1), :version, coalesce(created_at, :now), :now, expires_at,
    CASE WHEN default_day IS NOT NULL THEN :now / 86400000000 END,
    :writer, value
FROM milepost.changes
WHERE id = :change AND (expires_at IS NULL OR expires_at > :now)
