-- Which computation of its list a mapped task's instances stand for: items are compared only when it was computed anew.
CREATE TABLE expansions (
    run INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    expansion TEXT NOT NULL,
    PRIMARY KEY (run, task_id)
) WITHOUT ROWID;
