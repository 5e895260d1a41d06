-- How many tries the scheduler of a host had granted an instance at its last opening: more by now means that a person
-- has cleared it there.
CREATE TABLE grants (
    instance INTEGER NOT NULL PRIMARY KEY,
    max_tries INTEGER NOT NULL
);

-- How often its host has cleared a run, where the host shows a run under another incarnation after each.
CREATE TABLE run_clears (
    run INTEGER NOT NULL PRIMARY KEY,
    clears INTEGER NOT NULL
);
