-- How attempts failed and, as attempt 0, what became of tasks that a run ended without starting. For people; bounded.
CREATE TABLE IF NOT EXISTS milepost_outcomes (
    run bigint NOT NULL,
    task_id varbinary(1000) NOT NULL,
    map_index bigint NOT NULL,
    attempt bigint NOT NULL,
    state varchar(20) NOT NULL,
    error text,
    at bigint NOT NULL,
    PRIMARY KEY (run, task_id, map_index, attempt)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
