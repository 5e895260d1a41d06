-- entry_get(owner, key)
-- Text and encoding of a live key: the hot read.
SELECT value, encoding FROM milepost_entries
WHERE owner_id = :owner AND `key` = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_get_running(owner, key, instance, fence)
-- The same, only while the attempt that holds the fence runs.
SELECT value, encoding FROM milepost_entries
WHERE owner_id = :owner AND `key` = :key AND (expires_at IS NULL OR expires_at > :now)
    AND EXISTS (SELECT 1 FROM milepost_instances WHERE id = :instance AND fence = :fence AND state = 'running')

-- entry_read(owner, key)
-- The whole live row.
SELECT `key`, value, encoding, version, created_at, updated_at, expires_at, default_day, writer FROM milepost_entries
WHERE owner_id = :owner AND `key` = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_get_many(owner, keys)
-- The live ones of a JSON array of keys.
SELECT `key`, value, encoding FROM milepost_entries
WHERE owner_id = :owner AND `key` IN (
    SELECT CAST(wanted.one AS BINARY)
    FROM JSON_TABLE(:keys, '$[*]' COLUMNS (one varchar(512) CHARACTER SET utf8mb4 PATH '$')) AS wanted
  ) AND (expires_at IS NULL OR expires_at > :now)

-- entry_keys(owner, low, high)
-- Live keys in [low, high), by code point; high NULL: no bound.
SELECT `key` FROM milepost_entries
WHERE owner_id = :owner AND `key` >= :low AND (:high IS NULL OR `key` < :high)
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY `key`

-- entry_first(owner, limit)
-- The first live keys, by code point.
SELECT `key` FROM milepost_entries WHERE owner_id = :owner AND (expires_at IS NULL OR expires_at > :now) ORDER BY `key` LIMIT :limit

-- entry_items(owner, low, high)
-- Live rows in [low, high), by code point.
SELECT `key`, value, encoding, version, created_at, updated_at, expires_at, default_day, writer FROM milepost_entries
WHERE owner_id = :owner AND `key` >= :low AND (:high IS NULL OR `key` < :high)
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY `key`

-- entry_count(owner)
-- How many keys are live.
SELECT count(*) FROM milepost_entries WHERE owner_id = :owner AND (expires_at IS NULL OR expires_at > :now)

-- entry_put_fenced!(owner, fence, key, text, encoding, version, retention, writer)
-- The hot write: one statement that also checks the fence (NULL: only that the instance exists). No row: not written.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END,
    :writer, :text
FROM milepost_instances AS i WHERE i.id = :owner AND (:fence IS NULL OR i.fence = :fence) LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
    encoding = VALUES(encoding), version = VALUES(version),
    created_at = CASE WHEN milepost_entries.expires_at <= VALUES(updated_at) THEN VALUES(created_at) ELSE milepost_entries.created_at END,
    updated_at = VALUES(updated_at), expires_at = VALUES(expires_at), default_day = VALUES(default_day),
    writer = VALUES(writer), value = VALUES(value)

-- entry_put_running!(owner, fence, key, text, encoding, version, retention, writer)
-- The same, only while the attempt that holds the fence runs.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END,
    :writer, :text
FROM milepost_instances AS i WHERE i.id = :owner AND i.fence = :fence AND i.state = 'running' LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
    encoding = VALUES(encoding), version = VALUES(version),
    created_at = CASE WHEN milepost_entries.expires_at <= VALUES(updated_at) THEN VALUES(created_at) ELSE milepost_entries.created_at END,
    updated_at = VALUES(updated_at), expires_at = VALUES(expires_at), default_day = VALUES(default_day),
    writer = VALUES(writer), value = VALUES(value)

-- entry_put_all!(owner, fence, running, items, retention, writer)
-- The hot write of several keys, in their order: a JSON array of [key, text, encoding, version] arrays, no key twice. It
-- checks the fence (NULL: only that the instance exists) and, with running 1, that the attempt runs.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, items.one, items.encoding, items.version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END,
    :writer, items.text
FROM milepost_instances AS i JOIN JSON_TABLE(:items, '$[*]' COLUMNS (
    one varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', text longtext CHARACTER SET utf8mb4 PATH '$[1]',
    encoding bigint PATH '$[2]', version varchar(64) CHARACTER SET utf8mb4 PATH '$[3]'
)) AS items
WHERE i.id = :owner AND (:fence IS NULL OR i.fence = :fence) AND (:running = 0 OR i.state = 'running')
ORDER BY CAST(items.one AS BINARY)
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
    encoding = VALUES(encoding), version = VALUES(version),
    created_at = CASE WHEN milepost_entries.expires_at <= VALUES(updated_at) THEN VALUES(created_at) ELSE milepost_entries.created_at END,
    updated_at = VALUES(updated_at), expires_at = VALUES(expires_at), default_day = VALUES(default_day),
    writer = VALUES(writer), value = VALUES(value)

-- entry_put!(key, text, encoding, version | owner, retention, writer)
-- Write or overwrite; the caller has checked owner and fence in this transaction. Over an expired row it is a create.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
VALUES {(
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END,
    :writer, :text
)}
ON DUPLICATE KEY UPDATE
    encoding = VALUES(encoding), version = VALUES(version),
    created_at = CASE WHEN milepost_entries.expires_at <= VALUES(updated_at) THEN VALUES(created_at) ELSE milepost_entries.created_at END,
    updated_at = VALUES(updated_at), expires_at = VALUES(expires_at), default_day = VALUES(default_day),
    writer = VALUES(writer), value = VALUES(value)

-- entry_lock(owner, key)
-- Value, encoding and version of a live key, which nobody else changes until the transaction ends.
SELECT value, encoding, version FROM milepost_entries
WHERE owner_id = :owner AND `key` = :key AND (expires_at IS NULL OR expires_at > :now)
FOR UPDATE

-- entry_insert!(owner, key, text, encoding, version, retention, writer)
-- Write only if the key is absent or expired; no row: it is there.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
VALUES (
    :owner, :key, :encoding, :version, :now, :now,
    CASE WHEN :retention > 0 THEN :now + :retention END,
    CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END,
    :writer, :text
)
ON DUPLICATE KEY UPDATE
    encoding = IF(expires_at <= VALUES(updated_at), VALUES(encoding), encoding),
    version = IF(expires_at <= VALUES(updated_at), VALUES(version), version),
    created_at = IF(expires_at <= VALUES(updated_at), VALUES(created_at), created_at),
    default_day = IF(expires_at <= VALUES(updated_at), VALUES(default_day), default_day),
    writer = IF(expires_at <= VALUES(updated_at), VALUES(writer), writer),
    value = IF(expires_at <= VALUES(updated_at), VALUES(value), value),
    updated_at = IF(expires_at <= VALUES(updated_at), VALUES(updated_at), updated_at),
    expires_at = IF(expires_at <= updated_at, VALUES(expires_at), expires_at)

-- entry_replace!(owner, key, text, encoding, version, writer)
-- Overwrite a row and leave its expiry as it is; a governed row is governed from now on.
UPDATE milepost_entries SET
    encoding = :encoding, version = :version, updated_at = :now,
    default_day = CASE WHEN default_day IS NOT NULL THEN :now DIV 86400000000 END,
    writer = :writer, value = :text
WHERE owner_id = :owner AND `key` = :key

-- entry_touch!(owner, key, retention)
-- Move the expiry of a live row; value and version stay.
UPDATE milepost_entries SET
    updated_at = :now,
    expires_at = CASE WHEN :retention > 0 THEN :now + :retention END,
    default_day = CASE WHEN :retention IS NULL THEN :now DIV 86400000000 END
WHERE owner_id = :owner AND `key` = :key AND (expires_at IS NULL OR expires_at > :now)

-- entry_delete!(owner, key)
-- Drop a row, live or expired.
DELETE FROM milepost_entries WHERE owner_id = :owner AND `key` = :key

-- entry_clear!(owner)
-- Drop all rows of an owner.
DELETE FROM milepost_entries WHERE owner_id = :owner

-- entry_restore!(owner, change, version, writer)
-- Bring the row of a change back, if it has not expired meanwhile. A restore is a write: it has its own version. What
-- someone damaged comes back as a damaged row, encoding -1.
INSERT INTO milepost_entries (
    owner_id, `key`, encoding, version, created_at, updated_at, expires_at, default_day, writer, value
)
SELECT
    :owner, `key`, coalesce(encoding, -1), :version, coalesce(created_at, :now), :now, expires_at,
    CASE WHEN default_day IS NOT NULL THEN :now DIV 86400000000 END,
    :writer, value
FROM milepost_changes
WHERE id = :change AND (expires_at IS NULL OR expires_at > :now)
