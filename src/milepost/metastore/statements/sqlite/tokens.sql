-- token_insert!(digest, name, role)
-- Record a token, unless there is or was one of that name.
INSERT INTO tokens (digest, name, role, created_at) VALUES (:digest, :name, :role, :now)
ON CONFLICT (name) DO NOTHING

-- token_find(digest)
-- A token that is valid.
SELECT name, role, created_at, last_used_at, revoked_at FROM tokens WHERE digest = :digest AND revoked_at IS NULL

-- token_get(name)
-- A token by its name.
SELECT name, role, created_at, last_used_at, revoked_at FROM tokens WHERE name = :name

-- token_list()
-- All tokens by name.
SELECT name, role, created_at, last_used_at, revoked_at FROM tokens ORDER BY name

-- token_revoke!(name)
-- A token opens nothing any more.
UPDATE tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL

-- token_note!(digest)
-- A token is in use.
UPDATE tokens SET last_used_at = :now WHERE digest = :digest
