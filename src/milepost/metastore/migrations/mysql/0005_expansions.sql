-- Which computation of its list a mapped task's instances stand for: items are compared only when it was computed anew.
CREATE TABLE IF NOT EXISTS milepost_expansions (
    run bigint NOT NULL,
    task_id varbinary(1000) NOT NULL,
    expansion varbinary(1000) NOT NULL,
    PRIMARY KEY (run, task_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
