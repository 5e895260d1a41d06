-- lease_load(name)
-- Who holds a lease, and whether it is still valid; nobody else changes it until the transaction ends.
SELECT holder, held_until > :now FROM milepost_leases WHERE name = :name FOR UPDATE

-- lease_new!(name, holder, ttl)
-- Take a lease that nobody had; where somebody is quicker, this fails and the call runs again.
INSERT INTO milepost_leases (name, holder, held_until) VALUES (:name, :holder, :now + :ttl)

-- lease_take!(name, holder, ttl)
-- Take or renew a lease.
INSERT INTO milepost_leases (name, holder, held_until) VALUES (:name, :holder, :now + :ttl)
ON DUPLICATE KEY UPDATE holder = VALUES(holder), held_until = VALUES(held_until)

-- lease_drop!(name, holder)
-- Give a lease up.
DELETE FROM milepost_leases WHERE name = :name AND holder = :holder
