-- now()
-- The time.
SELECT :now

-- expired_count()
-- Rows whose explicit retention has passed.
SELECT count(*) FROM milepost.entries WHERE expires_at <= :now

-- expired_delete!(batch)
-- One batch of them.
DELETE FROM milepost.entries WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM milepost.entries WHERE expires_at <= :now LIMIT :batch FOR UPDATE SKIP LOCKED
))

-- retired_count(cutoff, unfinished_cutoff)
-- Rows under the default retention that are due: as in retired_delete.
SELECT count(*) FROM milepost.entries AS e
WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM milepost.instances AS i WHERE i.id = e.owner_id AND i.state IN ('running', 'up_for_retry', 'deferred')
      AND (i.updated_at >= :unfinished_cutoff OR EXISTS (
        SELECT 1 FROM milepost.entries AS s WHERE s.owner_id = i.id AND s.updated_at >= :unfinished_cutoff
          AND (s.expires_at IS NULL OR s.expires_at > :now)))
  )

-- retired_delete!(cutoff, unfinished_cutoff, batch)
-- One batch of rows under the default retention last updated before the cutoff, except those of open instances that
-- gave a sign of life since unfinished_cutoff. An expired row is none: it goes too, and a dry run must say the same.
DELETE FROM milepost.entries WHERE ctid = ANY (ARRAY(
    SELECT e.ctid FROM milepost.entries AS e
    WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
      AND NOT EXISTS (
        SELECT 1 FROM milepost.instances AS i WHERE i.id = e.owner_id AND i.state IN ('running', 'up_for_retry', 'deferred')
          AND (i.updated_at >= :unfinished_cutoff OR EXISTS (
            SELECT 1 FROM milepost.entries AS s WHERE s.owner_id = i.id AND s.updated_at >= :unfinished_cutoff
              AND (s.expires_at IS NULL OR s.expires_at > :now)))
      )
    LIMIT :batch FOR UPDATE OF e SKIP LOCKED
))

-- old_changes_count(cutoff)
-- Entries of the change log past their time; asset values are trimmed by number as they are written.
SELECT count(*) FROM milepost.changes WHERE kind <> 'asset' AND at < :cutoff

-- old_changes_delete!(cutoff, batch)
-- One batch of them.
DELETE FROM milepost.changes WHERE id IN (SELECT id FROM milepost.changes WHERE kind <> 'asset' AND at < :cutoff LIMIT :batch)

-- expired_list(limit)
-- The first of them, with whose they are.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri, e.key FROM milepost.entries AS e
LEFT JOIN milepost.instances AS i ON i.id = e.owner_id
LEFT JOIN milepost.runs AS r ON r.id = i.run
LEFT JOIN milepost.assets AS a ON a.id = e.owner_id
WHERE e.expires_at <= :now ORDER BY e.owner_id, e.key LIMIT :limit

-- retired_list(cutoff, unfinished_cutoff, limit)
-- The first of them, with whose they are.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri, e.key FROM milepost.entries AS e
LEFT JOIN milepost.instances AS i ON i.id = e.owner_id
LEFT JOIN milepost.runs AS r ON r.id = i.run
LEFT JOIN milepost.assets AS a ON a.id = e.owner_id
WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM milepost.instances AS o WHERE o.id = e.owner_id AND o.state IN ('running', 'up_for_retry', 'deferred')
      AND (o.updated_at >= :unfinished_cutoff OR EXISTS (
        SELECT 1 FROM milepost.entries AS s WHERE s.owner_id = o.id AND s.updated_at >= :unfinished_cutoff
          AND (s.expires_at IS NULL OR s.expires_at > :now)))
  )
ORDER BY e.owner_id, e.key LIMIT :limit

-- old_changes_list(cutoff, limit)
-- The first of them, with whose they are; the scope of an event is a text.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, c.scope, NULL, c.key FROM milepost.changes AS c
LEFT JOIN milepost.instances AS i ON i.id = c.owner_id
LEFT JOIN milepost.runs AS r ON r.id = i.run
WHERE c.kind <> 'asset' AND c.at < :cutoff ORDER BY c.id LIMIT :limit
