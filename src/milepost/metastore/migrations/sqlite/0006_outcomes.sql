-- How attempts failed and, as attempt 0, what became of tasks that a run ended without starting. For people; bounded.
CREATE TABLE outcomes (
    run INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    map_index INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (run, task_id, map_index, attempt)
) WITHOUT ROWID;
