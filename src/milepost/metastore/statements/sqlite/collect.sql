-- now()
-- The time.
SELECT :now

-- expired_count()
-- Rows whose explicit retention has passed.
SELECT count(*) FROM entries WHERE expires_at <= :now

-- expired_list(limit)
-- The first of them, with whose they are.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri, e.key FROM entries AS e
LEFT JOIN instances AS i ON i.id = e.owner_id
LEFT JOIN runs AS r ON r.id = i.run
LEFT JOIN assets AS a ON a.id = e.owner_id
WHERE e.expires_at <= :now ORDER BY e.owner_id, e.key LIMIT :limit

-- collect_entry!(owner, key, raw)
-- Remove one entry, also where someone put bytes that are no text into its key, as text or as what they are (raw). A DELETE
-- that looks its rows up in a subquery would read all keys of an owner for each batch: this database uses only the first
-- column of the pair then.
DELETE FROM entries WHERE owner_id = :owner AND key = CASE WHEN :raw THEN :key ELSE CAST(:key AS TEXT) END

-- expired_delete!(batch) > collect_entry
-- One batch of them.
SELECT owner_id, key, typeof(key) = 'blob' FROM entries WHERE expires_at <= :now LIMIT :batch

-- retired_count(cutoff, unfinished_cutoff)
-- Rows under the default retention that are due: as in retired_delete.
SELECT count(*) FROM entries AS e
WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM instances AS i WHERE i.id = e.owner_id AND i.state IN ('running', 'up_for_retry', 'deferred')
      AND (i.updated_at >= :unfinished_cutoff OR EXISTS (
        SELECT 1 FROM entries AS s WHERE s.owner_id = i.id AND s.updated_at >= :unfinished_cutoff
          AND (s.expires_at IS NULL OR s.expires_at > :now)))
  )

-- retired_list(cutoff, unfinished_cutoff, limit)
-- The first of them, with whose they are.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, a.name, a.uri, e.key FROM entries AS e
LEFT JOIN instances AS i ON i.id = e.owner_id
LEFT JOIN runs AS r ON r.id = i.run
LEFT JOIN assets AS a ON a.id = e.owner_id
WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM instances AS o WHERE o.id = e.owner_id AND o.state IN ('running', 'up_for_retry', 'deferred')
      AND (o.updated_at >= :unfinished_cutoff OR EXISTS (
        SELECT 1 FROM entries AS s WHERE s.owner_id = o.id AND s.updated_at >= :unfinished_cutoff
          AND (s.expires_at IS NULL OR s.expires_at > :now)))
  )
ORDER BY e.owner_id, e.key LIMIT :limit

-- retired_delete!(cutoff, unfinished_cutoff, batch) > collect_entry
-- One batch of rows under the default retention last updated before the cutoff, except those of open instances that
-- gave a sign of life since unfinished_cutoff. An expired row is none: it goes too, and a dry run must say the same.
SELECT e.owner_id, e.key, typeof(e.key) = 'blob' FROM entries AS e
WHERE e.default_day <= :cutoff / 86400000000 AND e.updated_at < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM instances AS i WHERE i.id = e.owner_id AND i.state IN ('running', 'up_for_retry', 'deferred')
      AND (i.updated_at >= :unfinished_cutoff OR EXISTS (
        SELECT 1 FROM entries AS s WHERE s.owner_id = i.id AND s.updated_at >= :unfinished_cutoff
          AND (s.expires_at IS NULL OR s.expires_at > :now)))
  )
LIMIT :batch

-- old_changes_count(cutoff)
-- Entries of the change log past their time; asset values are trimmed by number as they are written.
SELECT count(*) FROM changes WHERE kind <> 'asset' AND at < :cutoff

-- old_changes_list(cutoff, limit)
-- The first of them, with whose they are; the scope of an event is a text.
SELECT r.dag_id, r.run_id, i.task_id, i.map_index, c.scope, NULL, c.key FROM changes AS c
LEFT JOIN instances AS i ON i.id = c.owner_id
LEFT JOIN runs AS r ON r.id = i.run
WHERE c.kind <> 'asset' AND c.at < :cutoff ORDER BY c.id LIMIT :limit

-- old_changes_delete!(cutoff, batch)
-- One batch of them.
DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE kind <> 'asset' AND at < :cutoff LIMIT :batch)
