-- Owners of keys share one row of numbers, so that entries need one integer to name theirs. Numbers are never reused.
CREATE TABLE milepost.owners (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL
);

-- id tells the order in which runs were recorded. holder and held_until: the runner at work.
CREATE TABLE milepost.runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    dag_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    incarnation text,
    state text,
    params text,
    logical_date bigint,
    holder text,
    held_until bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX runs_of_dag ON milepost.runs (dag_id, id);

-- Incarnations that were replaced are stale for good, even after their run is deleted.
CREATE TABLE milepost.replaced_incarnations (
    run_hash bytea NOT NULL,
    incarnation text NOT NULL,
    replaced_at bigint NOT NULL,
    PRIMARY KEY (run_hash, incarnation)
);

-- fence rises with every attempt, clear and incarnation. Attempts up to cleared_attempt are stale.
CREATE TABLE milepost.instances (
    id bigint PRIMARY KEY REFERENCES milepost.owners (id),
    hash bytea NOT NULL UNIQUE,
    run bigint NOT NULL REFERENCES milepost.runs (id),
    task_id text COLLATE "C" NOT NULL,
    map_index bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    attempt bigint NOT NULL DEFAULT 0,
    cleared_attempt bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'none',
    item text,
    item_name text,
    clear_on_success bigint,
    on_clear text,
    created_at bigint NOT NULL,
    opened_at bigint,
    finished_at bigint,
    updated_at bigint NOT NULL
);
CREATE INDEX instances_of_run ON milepost.instances (run, task_id, map_index);

CREATE TABLE milepost.assets (
    id bigint PRIMARY KEY REFERENCES milepost.owners (id),
    hash bytea NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL,
    uri text COLLATE "C" NOT NULL,
    active bigint NOT NULL DEFAULT 1,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX assets_by_name ON milepost.assets USING hash (name);
CREATE INDEX assets_by_uri ON milepost.assets USING hash (uri);

-- The hot table. expires_at: explicit retention. default_day: the UTC day of the last write where the default
-- retention governs (a day, so that its index changes once a day and not with every write). Neither: never expires.
-- encoding 0: value is the JSON text. Pages keep some room, so that an update can stay on its own.
CREATE TABLE milepost.entries (
    owner_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    encoding bigint NOT NULL,
    version text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    default_day bigint,
    writer text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (owner_id, key)
) WITH (fillfactor = 90);
CREATE INDEX entries_expiry ON milepost.entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entries_default ON milepost.entries (default_day) WHERE default_day IS NOT NULL;

-- Append-only. A row with a key holds the entry as it was before the change; event names the row that heads a group.
CREATE TABLE milepost.changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event bigint,
    at bigint NOT NULL,
    kind text NOT NULL,
    cause text NOT NULL,
    owner_id bigint,
    scope text,
    writer text NOT NULL,
    key text COLLATE "C",
    new_version text,
    encoding bigint,
    version text,
    created_at bigint,
    updated_at bigint,
    expires_at bigint,
    default_day bigint,
    old_writer text,
    value text
);
CREATE INDEX changes_of_owner ON milepost.changes (owner_id, key, id);
CREATE INDEX changes_by_time ON milepost.changes (at) WHERE kind = 'task';

CREATE TABLE milepost.results (
    owner_id bigint PRIMARY KEY,
    created_at bigint NOT NULL,
    value text NOT NULL
);

-- Work that one process at a time does for all, such as collection.
CREATE TABLE milepost.leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    held_until bigint NOT NULL
);
