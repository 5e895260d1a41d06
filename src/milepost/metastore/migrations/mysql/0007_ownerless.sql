-- Releases before this one could leave keys of a run behind that was deleted while one of its tasks wrote. Nobody can reach
-- them any more; from now on they count as expired, so that the next collection finds them.
UPDATE milepost_entries SET expires_at = 0, default_day = NULL
WHERE NOT EXISTS (SELECT 1 FROM milepost_owners WHERE milepost_owners.id = milepost_entries.owner_id);
