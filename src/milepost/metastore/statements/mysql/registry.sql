-- asset_list(id, active, dag_id)
-- Records; NULL selects all.
SELECT a.id, a.name, a.uri, a.active, a.created_at, a.updated_at, d.at, d.writer, d.cause
FROM milepost_assets AS a LEFT JOIN milepost_deactivations AS d ON d.asset = a.id
WHERE (:id IS NULL OR a.id = :id) AND (:active IS NULL OR a.active = :active)
  AND (:dag_id IS NULL OR EXISTS (SELECT 1 FROM milepost_asset_references AS r WHERE r.asset = a.id AND r.dag_id = :dag_id))
ORDER BY a.name, a.uri, a.id

-- asset_page(active, low, high, after, limit, offset)
-- A page of records by number; NULL selects all. Names or URIs in [low, high).
SELECT a.id, a.name, a.uri, a.active, a.created_at, a.updated_at, d.at, d.writer, d.cause
FROM milepost_assets AS a LEFT JOIN milepost_deactivations AS d ON d.asset = a.id
WHERE a.id > :after AND (:active IS NULL OR a.active = :active)
  AND ((a.name >= :low AND (:high IS NULL OR a.name < :high))
    OR (a.uri >= :low AND (:high IS NULL OR a.uri < :high)))
ORDER BY a.id LIMIT :limit OFFSET :offset

-- asset_page_of_dag(dag_id, active, low, high, after, limit, offset)
-- The same, of those that a DAG refers to.
SELECT a.id, a.name, a.uri, a.active, a.created_at, a.updated_at, d.at, d.writer, d.cause
FROM milepost_assets AS a LEFT JOIN milepost_deactivations AS d ON d.asset = a.id
WHERE a.id > :after AND (:active IS NULL OR a.active = :active)
  AND ((a.name >= :low AND (:high IS NULL OR a.name < :high))
    OR (a.uri >= :low AND (:high IS NULL OR a.uri < :high)))
  AND a.id IN (SELECT r.asset FROM milepost_asset_references AS r WHERE r.dag_id = :dag_id)
ORDER BY a.id LIMIT :limit OFFSET :offset

-- asset_count(active, low, high)
-- How many records are on all pages.
SELECT count(*) FROM milepost_assets AS a
WHERE (:active IS NULL OR a.active = :active)
  AND ((a.name >= :low AND (:high IS NULL OR a.name < :high))
    OR (a.uri >= :low AND (:high IS NULL OR a.uri < :high)))

-- asset_count_of_dag(dag_id, active, low, high)
-- The same, of those that a DAG refers to.
SELECT count(*) FROM milepost_assets AS a
WHERE (:active IS NULL OR a.active = :active)
  AND ((a.name >= :low AND (:high IS NULL OR a.name < :high))
    OR (a.uri >= :low AND (:high IS NULL OR a.uri < :high)))
  AND a.id IN (SELECT r.asset FROM milepost_asset_references AS r WHERE r.dag_id = :dag_id)

-- references_of_assets(assets)
-- Who refers to the assets of a JSON array.
SELECT asset, dag_id, direction FROM milepost_asset_references WHERE asset IN (
    SELECT wanted.one FROM JSON_TABLE(:assets, '$[*]' COLUMNS (one bigint PATH '$')) AS wanted
  )
ORDER BY asset, dag_id, direction

-- aliases_of_assets(assets)
-- Aliases of the assets of a JSON array.
SELECT asset, alias FROM milepost_asset_aliases WHERE asset IN (
    SELECT wanted.one FROM JSON_TABLE(:assets, '$[*]' COLUMNS (one bigint PATH '$')) AS wanted
  )
ORDER BY asset, alias

-- reference_list(id)
-- Who refers to an asset; NULL: to any.
SELECT asset, dag_id, direction FROM milepost_asset_references WHERE (:id IS NULL OR asset = :id) ORDER BY asset, dag_id, direction

-- alias_list(id)
-- Aliases of an asset; NULL: of all.
SELECT asset, alias FROM milepost_asset_aliases WHERE (:id IS NULL OR asset = :id) ORDER BY asset, alias

-- references_of_dag(dag_id)
-- What a DAG refers to.
SELECT asset, direction FROM milepost_asset_references WHERE dag_id = :dag_id

-- reference_add!(asset, dag_id, direction)
-- Let a DAG refer to an asset.
INSERT INTO milepost_asset_references (asset, dag_id, direction) VALUES (:asset, :dag_id, :direction)
ON DUPLICATE KEY UPDATE direction = VALUES(direction)

-- reference_drop!(asset, dag_id, direction)
-- Let a DAG no longer refer to an asset.
DELETE FROM milepost_asset_references WHERE asset = :asset AND dag_id = :dag_id AND direction = :direction

-- asset_is_used(asset)
-- A row if a DAG refers to the asset or an alias stands for it.
SELECT 1 FROM milepost_asset_references WHERE asset = :asset
UNION ALL
SELECT 1 FROM milepost_asset_aliases WHERE asset = :asset
LIMIT 1

-- asset_set_active!(id, active)
-- Activate or deactivate.
UPDATE milepost_assets SET active = :active, updated_at = :now WHERE id = :id

-- deactivation_add!(asset, cause, writer)
-- Remember since when an asset is not active.
INSERT INTO milepost_deactivations (asset, at, cause, writer) VALUES (:asset, :now, :cause, :writer)
ON DUPLICATE KEY UPDATE at = VALUES(at), cause = VALUES(cause), writer = VALUES(writer)

-- deactivation_drop!(asset)
-- An asset is active again, or nothing is left of it.
DELETE FROM milepost_deactivations WHERE asset = :asset

-- alias_add!(hash, asset, alias)
-- Let an alias stand for an asset.
INSERT INTO milepost_asset_aliases (hash, asset, alias) VALUES (:hash, :asset, :alias) ON DUPLICATE KEY UPDATE alias = VALUES(alias)

-- alias_drop!(hash, asset)
-- Let an alias no longer stand for an asset.
DELETE FROM milepost_asset_aliases WHERE hash = :hash AND asset = :asset

-- assets_of_alias(hash)
-- The assets that an alias stands for.
SELECT a.id, a.name, a.uri FROM milepost_asset_aliases AS l JOIN milepost_assets AS a ON a.id = l.asset WHERE l.hash = :hash ORDER BY a.id

-- orphans_count(cutoff)
-- Assets that are due for the sweep: deactivated before the cutoff, and nothing reads them.
SELECT count(*) FROM milepost_deactivations AS d JOIN milepost_assets AS a ON a.id = d.asset AND a.active = 0
WHERE d.at <= :cutoff
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_references AS r WHERE r.asset = a.id AND r.direction <> 'outlet')
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_aliases AS l WHERE l.asset = a.id)

-- orphans_list(cutoff, limit)
-- The first of them, as other lists of what is due.
SELECT NULL, NULL, NULL, NULL, a.name, a.uri, NULL FROM milepost_deactivations AS d JOIN milepost_assets AS a ON a.id = d.asset AND a.active = 0
WHERE d.at <= :cutoff
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_references AS r WHERE r.asset = a.id AND r.direction <> 'outlet')
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_aliases AS l WHERE l.asset = a.id)
ORDER BY d.at, a.id LIMIT :limit

-- orphan_next(cutoff)
-- The one that has been due for longest.
SELECT a.id, a.name, a.uri FROM milepost_deactivations AS d JOIN milepost_assets AS a ON a.id = d.asset AND a.active = 0
WHERE d.at <= :cutoff
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_references AS r WHERE r.asset = a.id AND r.direction <> 'outlet')
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_aliases AS l WHERE l.asset = a.id)
ORDER BY d.at, a.id LIMIT 1

-- orphan_check(id, cutoff)
-- A row if an asset, which this transaction has locked, is due.
SELECT 1 FROM milepost_deactivations AS d JOIN milepost_assets AS a ON a.id = d.asset AND a.active = 0
WHERE a.id = :id AND d.at <= :cutoff
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_references AS r WHERE r.asset = a.id AND r.direction <> 'outlet')
  AND NOT EXISTS (SELECT 1 FROM milepost_asset_aliases AS l WHERE l.asset = a.id)

-- swept_next()
-- A swept asset of which something is left.
SELECT asset FROM milepost_deactivations WHERE cause = 'swept' ORDER BY at LIMIT 1

-- swept_mark!(asset)
-- What an asset owned may go.
UPDATE milepost_deactivations SET cause = 'swept' WHERE asset = :asset

-- references_drop!(asset)
-- Drop all references to an asset.
DELETE FROM milepost_asset_references WHERE asset = :asset

-- asset_delete!(id)
-- Remove the record.
DELETE FROM milepost_assets WHERE id = :id

-- swept_entries!(owner, batch)
-- Remove a batch of the entries of a swept asset.
DELETE FROM milepost_entries WHERE owner_id = :owner LIMIT :batch

-- swept_changes!(owner, batch)
-- Remove a batch of the history of a swept asset.
DELETE FROM milepost_changes WHERE owner_id = :owner LIMIT :batch

-- swept_events!(owner, batch)
-- Remove a batch of the events of a swept asset; the runs that they started stay.
DELETE FROM milepost_events WHERE asset = :owner LIMIT :batch

-- excess_count(keep)
-- Earlier values of assets beyond the number that is kept.
SELECT count(*) FROM (
    SELECT row_number() OVER (PARTITION BY c.owner_id, c.`key` ORDER BY c.id DESC) AS place
    FROM milepost_assets AS a JOIN milepost_changes AS c ON c.owner_id = a.id WHERE c.`key` IS NOT NULL
) AS ranked WHERE place > :keep

-- excess_list(keep, limit)
-- The first of them, with whose they are.
SELECT NULL, NULL, NULL, NULL, name, uri, `key` FROM (
    SELECT a.name, a.uri, c.`key`, c.id, row_number() OVER (PARTITION BY c.owner_id, c.`key` ORDER BY c.id DESC) AS place
    FROM milepost_assets AS a JOIN milepost_changes AS c ON c.owner_id = a.id WHERE c.`key` IS NOT NULL
) AS ranked WHERE place > :keep ORDER BY id LIMIT :limit

-- excess_delete!(keep, batch)
-- One batch of them. They are trimmed as keys are written; this is for keys that no longer are, and for a lower limit.
DELETE gone FROM milepost_changes AS gone JOIN (
    SELECT id FROM (
        SELECT c.id, row_number() OVER (PARTITION BY c.owner_id, c.`key` ORDER BY c.id DESC) AS place
        FROM milepost_assets AS a JOIN milepost_changes AS c ON c.owner_id = a.id WHERE c.`key` IS NOT NULL
    ) AS ranked WHERE place > :keep LIMIT :batch
) AS due ON due.id = gone.id
