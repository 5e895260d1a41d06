-- Which DAGs refer to an asset, and how: inlet, outlet, schedule or watch.
CREATE TABLE asset_references (
    asset INTEGER NOT NULL,
    dag_id TEXT NOT NULL,
    direction TEXT NOT NULL,
    PRIMARY KEY (asset, dag_id, direction)
) WITHOUT ROWID;
CREATE INDEX references_of_dag ON asset_references (dag_id);

-- Assets that an alias stands for.
CREATE TABLE asset_aliases (
    hash BLOB NOT NULL,
    asset INTEGER NOT NULL,
    alias TEXT NOT NULL,
    PRIMARY KEY (hash, asset)
) WITHOUT ROWID;
CREATE INDEX aliases_of_asset ON asset_aliases (asset);

-- Since when an asset is not active, and why: command or unreferenced. swept: the asset is gone, what it owned is going.
CREATE TABLE deactivations (
    asset INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    cause TEXT NOT NULL,
    writer TEXT NOT NULL
);
CREATE INDEX deactivations_by_time ON deactivations (at);

-- Values that become an asset's when the attempt that holds the fence succeeds. mode: set, advance or advance:datetime.
CREATE TABLE staged (
    instance INTEGER NOT NULL,
    asset INTEGER NOT NULL,
    key TEXT NOT NULL,
    fence INTEGER NOT NULL,
    mode TEXT NOT NULL,
    encoding INTEGER NOT NULL,
    version TEXT NOT NULL,
    staged_at INTEGER NOT NULL,
    writer TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (instance, asset, key)
) WITHOUT ROWID;

-- Values of assets are kept by number, everything else in the change log by time.
DROP INDEX changes_by_time;
CREATE INDEX changes_by_time ON changes (at) WHERE kind <> 'asset';
