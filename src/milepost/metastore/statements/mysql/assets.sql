-- asset_active(id)
-- Whether the asset is active; no row: there is no such asset.
SELECT active FROM milepost_assets WHERE id = :id

-- asset_lock(id)
-- The same, and no other writer of the asset until the transaction ends.
SELECT active FROM milepost_assets WHERE id = :id FOR UPDATE

-- asset_by_id(id)
-- One asset.
SELECT id, name, uri FROM milepost_assets WHERE id = :id

-- asset_by_hash(hash)
-- The asset with exactly this name and URI.
SELECT id, name, uri FROM milepost_assets WHERE hash = :hash

-- asset_by_names(name, uri)
-- Assets with this name or this URI; NULL matches nothing.
SELECT id, name, uri FROM milepost_assets WHERE name = :name
UNION
SELECT id, name, uri FROM milepost_assets WHERE uri = :uri
ORDER BY id

-- asset_insert!(id, hash, name, uri)
-- Record an asset as active.
INSERT INTO milepost_assets (id, hash, name, uri, created_at, updated_at) VALUES (:id, :hash, :name, :uri, :now, :now)

-- asset_rename!(id, hash, name, uri)
-- Complete the names of an asset that was known by one of them only.
UPDATE milepost_assets SET hash = :hash, name = :name, uri = :uri, updated_at = :now WHERE id = :id
