-- Jobs that a task instance has submitted to another system, or is about to: the latest of each key.
-- submission rises with every new job that is wanted; token is what the other system knows it by.
-- state: open: nobody here knows whether it was submitted; known: its id is the entry of that key; dropped: forgotten.
-- job: a fingerprint of that id. params: fingerprints of what the job was submitted with, by name.
CREATE TABLE milepost.intents (
    owner_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    submission bigint NOT NULL,
    generation bigint NOT NULL,
    token text NOT NULL,
    state text NOT NULL,
    job text,
    params text,
    version text NOT NULL,
    writer text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (owner_id, key)
);
