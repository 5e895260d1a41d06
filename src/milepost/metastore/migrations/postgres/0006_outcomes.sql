-- How attempts failed and, as attempt 0, what became of tasks that a run ended without starting. For people; bounded.
CREATE TABLE milepost.outcomes (
    run bigint NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    map_index bigint NOT NULL,
    attempt bigint NOT NULL,
    state text NOT NULL,
    error text,
    at bigint NOT NULL,
    PRIMARY KEY (run, task_id, map_index, attempt)
);
