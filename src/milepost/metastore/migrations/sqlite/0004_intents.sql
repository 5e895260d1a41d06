-- Jobs that a task instance has submitted to another system, or is about to: the latest of each key.
-- submission rises with every new job that is wanted; token is what the other system knows it by.
-- state: open: nobody here knows whether it was submitted; known: its id is the entry of that key; dropped: forgotten.
-- job: a fingerprint of that id. params: fingerprints of what the job was submitted with, by name.
CREATE TABLE intents (
    owner_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    submission INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    token TEXT NOT NULL,
    state TEXT NOT NULL,
    job TEXT,
    params TEXT,
    version TEXT NOT NULL,
    writer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner_id, key)
) WITHOUT ROWID;
