-- Keys, ids, names and URIs are VARBINARY: the binary collations ignore trailing blanks. Everything can be made twice,
-- because this database commits each statement that defines something.

-- Owners of keys share one row of numbers, so that entries need one integer to name theirs. Numbers are never reused.
CREATE TABLE IF NOT EXISTS milepost_owners (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind varchar(10) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- id tells the order in which runs were recorded. holder and held_until: the runner at work.
CREATE TABLE IF NOT EXISTS milepost_runs (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    hash varbinary(16) NOT NULL UNIQUE,
    dag_id varbinary(1000) NOT NULL,
    run_id varbinary(1000) NOT NULL,
    incarnation varbinary(1000),
    state varchar(20),
    params longtext,
    logical_date bigint,
    holder text,
    held_until bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    INDEX runs_of_dag (dag_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Incarnations that were replaced are stale for good, even after their run is deleted.
CREATE TABLE IF NOT EXISTS milepost_replaced_incarnations (
    run_hash varbinary(16) NOT NULL,
    incarnation varbinary(1000) NOT NULL,
    replaced_at bigint NOT NULL,
    PRIMARY KEY (run_hash, incarnation)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- fence rises with every attempt, clear and incarnation. Attempts up to cleared_attempt are stale.
CREATE TABLE IF NOT EXISTS milepost_instances (
    id bigint NOT NULL PRIMARY KEY,
    hash varbinary(16) NOT NULL UNIQUE,
    run bigint NOT NULL,
    task_id varbinary(1000) NOT NULL,
    map_index bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    attempt bigint NOT NULL DEFAULT 0,
    cleared_attempt bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL DEFAULT 0,
    state varchar(20) NOT NULL DEFAULT 'none',
    item varchar(64),
    item_name varbinary(6000),
    clear_on_success bigint,
    on_clear varchar(20),
    created_at bigint NOT NULL,
    opened_at bigint,
    finished_at bigint,
    updated_at bigint NOT NULL,
    INDEX instances_of_run (run, task_id, map_index),
    FOREIGN KEY (id) REFERENCES milepost_owners (id),
    FOREIGN KEY (run) REFERENCES milepost_runs (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS milepost_assets (
    id bigint NOT NULL PRIMARY KEY,
    hash varbinary(16) NOT NULL UNIQUE,
    name varbinary(6000) NOT NULL,
    uri varbinary(6000) NOT NULL,
    active bigint NOT NULL DEFAULT 1,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    INDEX assets_by_name (name(255)),
    INDEX assets_by_uri (uri(255)),
    FOREIGN KEY (id) REFERENCES milepost_owners (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The hot table. expires_at: explicit retention. default_day: the UTC day of the last write where the default
-- retention governs (a day, so that its index changes once a day and not with every write). Neither: never expires.
-- encoding 0: value is the JSON text.
CREATE TABLE IF NOT EXISTS milepost_entries (
    owner_id bigint NOT NULL,
    `key` varbinary(2048) NOT NULL,
    encoding bigint NOT NULL,
    version varchar(64) NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    default_day bigint,
    writer text NOT NULL,
    value longtext NOT NULL,
    PRIMARY KEY (owner_id, `key`),
    INDEX entries_expiry (expires_at),
    INDEX entries_default (default_day)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Append-only. A row with a key holds the entry as it was before the change; event names the row that heads a group.
CREATE TABLE IF NOT EXISTS milepost_changes (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event bigint,
    at bigint NOT NULL,
    kind varchar(10) NOT NULL,
    cause varchar(40) NOT NULL,
    owner_id bigint,
    scope text,
    writer text NOT NULL,
    `key` varbinary(2048),
    new_version varchar(64),
    encoding bigint,
    version varchar(64),
    created_at bigint,
    updated_at bigint,
    expires_at bigint,
    default_day bigint,
    old_writer text,
    value longtext,
    INDEX changes_of_owner (owner_id, `key`, id),
    INDEX changes_by_time (kind, at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS milepost_results (
    owner_id bigint NOT NULL PRIMARY KEY,
    created_at bigint NOT NULL,
    value longtext NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Work that one process at a time does for all, such as collection.
CREATE TABLE IF NOT EXISTS milepost_leases (
    name varchar(100) NOT NULL PRIMARY KEY,
    holder text NOT NULL,
    held_until bigint NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
