-- Jobs that a task instance has submitted to another system, or is about to: the latest of each key.
-- submission rises with every new job that is wanted; token is what the other system knows it by.
-- state: open: nobody here knows whether it was submitted; known: its id is the entry of that key; dropped: forgotten.
-- job: a fingerprint of that id. params: fingerprints of what the job was submitted with, by name.
CREATE TABLE IF NOT EXISTS milepost_intents (
    owner_id bigint NOT NULL,
    `key` varbinary(2048) NOT NULL,
    submission bigint NOT NULL,
    generation bigint NOT NULL,
    token varchar(64) NOT NULL,
    state varchar(20) NOT NULL,
    job varchar(64),
    params longtext,
    version varchar(64) NOT NULL,
    writer text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (owner_id, `key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
