-- What happened to an asset, as the triggers of its watchers told it; hash is that of event_id, so that each counts once.
CREATE TABLE milepost.events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asset bigint NOT NULL,
    hash bytea NOT NULL,
    event_id text NOT NULL,
    watcher text NOT NULL,
    payload text NOT NULL,
    at bigint NOT NULL,
    UNIQUE (asset, hash)
);

-- Runs that events started. pending: 1 until the run has ended, and again after a clear.
CREATE TABLE milepost.event_runs (
    run bigint PRIMARY KEY,
    event bigint NOT NULL,
    pending bigint NOT NULL
);
CREATE INDEX event_runs_pending ON milepost.event_runs (run) WHERE pending = 1;
