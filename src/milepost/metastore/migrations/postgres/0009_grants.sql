-- How many tries the scheduler of a host had granted an instance at its last opening: more by now means that a person
-- has cleared it there.
CREATE TABLE milepost.grants (
    instance bigint NOT NULL PRIMARY KEY,
    max_tries bigint NOT NULL
);

-- How often its host has cleared a run, where the host shows a run under another incarnation after each.
CREATE TABLE milepost.run_clears (
    run bigint NOT NULL PRIMARY KEY,
    clears bigint NOT NULL
);
