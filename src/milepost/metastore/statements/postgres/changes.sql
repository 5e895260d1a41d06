-- change_event+(kind, cause, owner, scope, writer)
-- The head of a group of changes, or an event without keys.
INSERT INTO milepost.changes (at, kind, cause, owner_id, scope, writer) VALUES (:now, :kind, :cause, :owner, :scope, :writer)
RETURNING id

-- change_key!(event, kind, cause, owner, key, writer, new_version)
-- One key is about to change: keep what it was, or that it was absent.
INSERT INTO milepost.changes (
    event, at, kind, cause, owner_id, writer, key, new_version,
    encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value
)
SELECT :event, :now, :kind, :cause, :owner, :writer, :key, :new_version,
    e.encoding, e.version, e.created_at, e.updated_at, e.expires_at, e.default_day, e.writer, e.value
FROM (SELECT 1) AS one LEFT JOIN milepost.entries AS e
    ON e.owner_id = :owner AND e.key = :key AND (e.expires_at IS NULL OR e.expires_at > :now)

-- change_all_keys!(event, kind, cause, owner, writer)
-- All live keys of an owner are about to go: keep what they were.
INSERT INTO milepost.changes (
    event, at, kind, cause, owner_id, writer, key,
    encoding, version, created_at, updated_at, expires_at, default_day, old_writer, value
)
SELECT :event, :now, :kind, :cause, owner_id, :writer, key,
    encoding, version, created_at, updated_at, expires_at, default_day, writer, value
FROM milepost.entries WHERE owner_id = :owner AND (expires_at IS NULL OR expires_at > :now)

-- change_trim!(owner, key, keep)
-- Keep the latest values of an asset's key and drop the rest.
DELETE FROM milepost.changes WHERE owner_id = :owner AND key = :key AND id <= (
    SELECT id FROM milepost.changes WHERE owner_id = :owner AND key = :key ORDER BY id DESC LIMIT 1 OFFSET :keep
)

-- change_archives(owner)
-- Keys that were set aside and have not expired meanwhile, by archive, newest first.
SELECT coalesce(event, id) AS archive, cause, at, writer, key, id FROM milepost.changes
WHERE owner_id = :owner AND key IS NOT NULL AND value IS NOT NULL AND cause <> 'set'
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY archive DESC, key

-- change_forget!(owner)
-- Drop the archives of an owner that is removed.
DELETE FROM milepost.changes WHERE owner_id = :owner
