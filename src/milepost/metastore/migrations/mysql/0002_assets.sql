-- Which DAGs refer to an asset, and how: inlet, outlet, schedule or watch.
CREATE TABLE IF NOT EXISTS milepost_asset_references (
    asset bigint NOT NULL,
    dag_id varbinary(1000) NOT NULL,
    direction varchar(10) NOT NULL,
    PRIMARY KEY (asset, dag_id, direction),
    INDEX references_of_dag (dag_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Assets that an alias stands for.
CREATE TABLE IF NOT EXISTS milepost_asset_aliases (
    hash varbinary(16) NOT NULL,
    asset bigint NOT NULL,
    alias varbinary(6000) NOT NULL,
    PRIMARY KEY (hash, asset),
    INDEX aliases_of_asset (asset)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Since when an asset is not active, and why: command or unreferenced. swept: the asset is gone, what it owned is going.
CREATE TABLE IF NOT EXISTS milepost_deactivations (
    asset bigint NOT NULL PRIMARY KEY,
    at bigint NOT NULL,
    cause varchar(20) NOT NULL,
    writer text NOT NULL,
    INDEX deactivations_by_time (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Values that become an asset's when the attempt that holds the fence succeeds. mode: set, advance or advance:datetime.
CREATE TABLE IF NOT EXISTS milepost_staged (
    instance bigint NOT NULL,
    asset bigint NOT NULL,
    `key` varbinary(2048) NOT NULL,
    fence bigint NOT NULL,
    mode varchar(20) NOT NULL,
    encoding bigint NOT NULL,
    version varchar(64) NOT NULL,
    staged_at bigint NOT NULL,
    writer text NOT NULL,
    value longtext NOT NULL,
    PRIMARY KEY (instance, asset, `key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Values of assets are kept by number, everything else in the change log by time: its index has the kind in front here.
