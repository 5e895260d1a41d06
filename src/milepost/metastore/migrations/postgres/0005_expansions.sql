-- Which computation of its list a mapped task's instances stand for: items are compared only when it was computed anew.
CREATE TABLE milepost.expansions (
    run bigint NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    expansion text NOT NULL,
    PRIMARY KEY (run, task_id)
);
