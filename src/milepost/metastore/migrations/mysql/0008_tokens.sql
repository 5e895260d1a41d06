-- Tokens of people and tools for the REST API: the SHA-256 of each, never the token. Revoked ones keep their name.
CREATE TABLE IF NOT EXISTS milepost_tokens (
    digest varchar(64) NOT NULL PRIMARY KEY,
    name varbinary(1000) NOT NULL UNIQUE,
    role varchar(20) NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint,
    revoked_at bigint
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
