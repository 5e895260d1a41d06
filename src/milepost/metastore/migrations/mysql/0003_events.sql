-- What happened to an asset, as the triggers of its watchers told it; hash is that of event_id, so that each counts once.
CREATE TABLE IF NOT EXISTS milepost_events (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    asset bigint NOT NULL,
    hash varbinary(16) NOT NULL,
    event_id varbinary(2048) NOT NULL,
    watcher varbinary(1000) NOT NULL,
    payload longtext NOT NULL,
    at bigint NOT NULL,
    UNIQUE KEY events_of_asset (asset, hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Runs that events started. pending: 1 until the run has ended, and again after a clear.
CREATE TABLE IF NOT EXISTS milepost_event_runs (
    run bigint NOT NULL PRIMARY KEY,
    event bigint NOT NULL,
    pending bigint NOT NULL,
    INDEX event_runs_pending (pending, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
