-- Tokens of people and tools for the REST API: the SHA-256 of each, never the token. Revoked ones keep their name.
CREATE TABLE milepost.tokens (
    digest text PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    role text NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint,
    revoked_at bigint
);
