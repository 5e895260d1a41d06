-- How many tries the scheduler of a host had granted an instance at its last opening: more by now means that a person
-- has cleared it there.
CREATE TABLE IF NOT EXISTS milepost_grants (
    instance bigint NOT NULL PRIMARY KEY,
    max_tries bigint NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How often its host has cleared a run, where the host shows a run under another incarnation after each.
CREATE TABLE IF NOT EXISTS milepost_run_clears (
    run bigint NOT NULL PRIMARY KEY,
    clears bigint NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
