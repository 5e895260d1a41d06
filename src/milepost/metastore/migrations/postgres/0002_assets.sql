-- Which DAGs refer to an asset, and how: inlet, outlet, schedule or watch.
CREATE TABLE milepost.asset_references (
    asset bigint NOT NULL,
    dag_id text COLLATE "C" NOT NULL,
    direction text NOT NULL,
    PRIMARY KEY (asset, dag_id, direction)
);
CREATE INDEX references_of_dag ON milepost.asset_references (dag_id);

-- Assets that an alias stands for.
CREATE TABLE milepost.asset_aliases (
    hash bytea NOT NULL,
    asset bigint NOT NULL,
    alias text NOT NULL,
    PRIMARY KEY (hash, asset)
);
CREATE INDEX aliases_of_asset ON milepost.asset_aliases (asset);

-- Since when an asset is not active, and why: command or unreferenced. swept: the asset is gone, what it owned is going.
CREATE TABLE milepost.deactivations (
    asset bigint PRIMARY KEY,
    at bigint NOT NULL,
    cause text NOT NULL,
    writer text NOT NULL
);
CREATE INDEX deactivations_by_time ON milepost.deactivations (at);

-- Values that become an asset's when the attempt that holds the fence succeeds. mode: set, advance or advance:datetime.
CREATE TABLE milepost.staged (
    instance bigint NOT NULL,
    asset bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    mode text NOT NULL,
    encoding bigint NOT NULL,
    version text NOT NULL,
    staged_at bigint NOT NULL,
    writer text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (instance, asset, key)
);

-- Values of assets are kept by number, everything else in the change log by time.
DROP INDEX milepost.changes_by_time;
CREATE INDEX changes_by_time ON milepost.changes (at) WHERE kind <> 'asset';
