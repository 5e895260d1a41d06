-- lease_load(name)
-- Who holds a lease, and whether it is still valid; nobody else changes it until the transaction ends.
SELECT holder, held_until > :now FROM leases WHERE name = :name

-- lease_new!(name, holder, ttl)
-- Take a lease that nobody had; where somebody is quicker, this fails and the call runs again.
INSERT INTO leases (name, holder, held_until) VALUES (:name, :holder, :now + :ttl)

-- lease_take!(name, holder, ttl)
-- Take or renew a lease.
INSERT INTO leases (name, holder, held_until) VALUES (:name, :holder, :now + :ttl)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until

-- lease_drop!(name, holder)
-- Give a lease up.
DELETE FROM leases WHERE name = :name AND holder = :holder
