-- asset_peek(owner, key, instance)
-- An asset's key, whether the asset is active, and the fence of an instance, from one moment.
SELECT e.value, e.encoding, a.active, (SELECT i.fence FROM milepost.instances AS i WHERE i.id = :instance)
FROM milepost.assets AS a LEFT JOIN milepost.entries AS e
    ON e.owner_id = a.id AND e.key = :key AND (e.expires_at IS NULL OR e.expires_at > :now)
WHERE a.id = :owner

-- asset_history(owner, key, limit)
-- Earlier values of a key of an active asset, newest first.
SELECT value, encoding, version, created_at, updated_at, old_writer, at, writer, cause
FROM milepost.changes WHERE owner_id = :owner AND key = :key AND value IS NOT NULL
AND EXISTS (SELECT 1 FROM milepost.assets WHERE id = :owner AND active = 1) ORDER BY id DESC LIMIT :limit

-- asset_past(owner, key, version)
-- An earlier value.
SELECT value, encoding FROM milepost.changes
WHERE owner_id = :owner AND key = :key AND version = :version AND value IS NOT NULL ORDER BY id DESC LIMIT 1

-- asset_archives(owner)
-- Keys of an asset that were deleted or cleared, by archive, newest first.
SELECT coalesce(event, id) AS archive, cause, at, writer, key, id FROM milepost.changes
WHERE owner_id = :owner AND key IS NOT NULL AND value IS NOT NULL AND cause IN ('delete', 'clear')
ORDER BY archive DESC, key

-- stage_guard(id)
-- Fence and state of an instance, and no other writer of the instance until the transaction ends.
SELECT fence, state FROM milepost.instances WHERE id = :id FOR UPDATE

-- staged_get(instance, asset, key)
-- A value that was staged.
SELECT mode, value, encoding FROM milepost.staged WHERE instance = :instance AND asset = :asset AND key = :key

-- staged_put!(instance, asset, key, fence, mode, text, encoding, version, writer)
-- Stage a value, over an earlier one.
INSERT INTO milepost.staged (instance, asset, key, fence, mode, encoding, version, staged_at, writer, value)
VALUES (:instance, :asset, :key, :fence, :mode, :encoding, :version, :now, :writer, :text)
ON CONFLICT (instance, asset, key) DO UPDATE SET
    fence = excluded.fence, mode = excluded.mode, encoding = excluded.encoding, version = excluded.version,
    staged_at = excluded.staged_at, writer = excluded.writer, value = excluded.value

-- staged_list(instance, fence)
-- All that an attempt has staged, in the order in which assets are locked.
SELECT asset, key, mode, value, encoding, version, writer FROM milepost.staged
WHERE instance = :instance AND fence = :fence ORDER BY asset, key

-- staged_drop!(instance)
-- Drop what attempts of an instance have staged.
DELETE FROM milepost.staged WHERE instance = :instance

-- change_value(id)
-- The value that a change kept.
SELECT value, encoding FROM milepost.changes WHERE id = :id
