-- What happened to an asset, as the triggers of its watchers told it; hash is that of event_id, so that each counts once.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    asset INTEGER NOT NULL,
    hash BLOB NOT NULL,
    event_id TEXT NOT NULL,
    watcher TEXT NOT NULL,
    payload TEXT NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (asset, hash)
);

-- Runs that events started. pending: 1 until the run has ended, and again after a clear.
CREATE TABLE event_runs (
    run INTEGER PRIMARY KEY,
    event INTEGER NOT NULL,
    pending INTEGER NOT NULL
);
CREATE INDEX event_runs_pending ON event_runs (run) WHERE pending = 1;
