-- Owners of keys share one row of numbers, so that entries need one integer to name theirs. Numbers are never reused.
CREATE TABLE owners (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL
);

-- id tells the order in which runs were recorded. holder and held_until: the runner at work.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    dag_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    incarnation TEXT,
    state TEXT,
    params TEXT,
    logical_date INTEGER,
    holder TEXT,
    held_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX runs_of_dag ON runs (dag_id, id);

-- Incarnations that were replaced are stale for good, even after their run is deleted.
CREATE TABLE replaced_incarnations (
    run_hash BLOB NOT NULL,
    incarnation TEXT NOT NULL,
    replaced_at INTEGER NOT NULL,
    PRIMARY KEY (run_hash, incarnation)
) WITHOUT ROWID;

-- fence rises with every attempt, clear and incarnation. Attempts up to cleared_attempt are stale.
CREATE TABLE instances (
    id INTEGER PRIMARY KEY REFERENCES owners (id),
    hash BLOB NOT NULL UNIQUE,
    run INTEGER NOT NULL REFERENCES runs (id),
    task_id TEXT NOT NULL,
    map_index INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    cleared_attempt INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'none',
    item TEXT,
    item_name TEXT,
    clear_on_success INTEGER,
    on_clear TEXT,
    created_at INTEGER NOT NULL,
    opened_at INTEGER,
    finished_at INTEGER,
    updated_at INTEGER NOT NULL
);
CREATE INDEX instances_of_run ON instances (run, task_id, map_index);

CREATE TABLE assets (
    id INTEGER PRIMARY KEY REFERENCES owners (id),
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    uri TEXT NOT NULL,
    active INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX assets_by_name ON assets (name);
CREATE INDEX assets_by_uri ON assets (uri);

-- The hot table. expires_at: explicit retention. default_day: the UTC day of the last write where the default
-- retention governs (a day, so that its index changes once a day and not with every write). Neither: never expires.
-- encoding 0: value is the JSON text.
CREATE TABLE entries (
    owner_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    encoding INTEGER NOT NULL,
    version TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    default_day INTEGER,
    writer TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner_id, key)
) WITHOUT ROWID;
CREATE INDEX entries_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entries_default ON entries (default_day) WHERE default_day IS NOT NULL;

-- Append-only. A row with a key holds the entry as it was before the change; event names the row that heads a group.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event INTEGER,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    cause TEXT NOT NULL,
    owner_id INTEGER,
    scope TEXT,
    writer TEXT NOT NULL,
    key TEXT,
    new_version TEXT,
    encoding INTEGER,
    version TEXT,
    created_at INTEGER,
    updated_at INTEGER,
    expires_at INTEGER,
    default_day INTEGER,
    old_writer TEXT,
    value TEXT
);
CREATE INDEX changes_of_owner ON changes (owner_id, key, id);
CREATE INDEX changes_by_time ON changes (at) WHERE kind = 'task';

CREATE TABLE results (
    owner_id INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    value TEXT NOT NULL
);

-- Work that one process at a time does for all, such as collection.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL
) WITHOUT ROWID;
