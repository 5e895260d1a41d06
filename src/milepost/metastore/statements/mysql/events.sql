-- event_find(asset, hash)
-- The number of an event of an asset; no row: it is new.
SELECT id FROM milepost_events WHERE asset = :asset AND hash = :hash

-- event_insert+(asset, hash, event_id, watcher, payload)
-- Record an event.
INSERT INTO milepost_events (asset, hash, event_id, watcher, payload, at)
VALUES (:asset, :hash, :event_id, :watcher, :payload, :now)

-- event_run_insert!(run, event)
-- An event starts a run.
INSERT INTO milepost_event_runs (run, event, pending) VALUES (:run, :event, 1)

-- event_run_list(event)
-- The runs that an event started and that have not ended.
SELECT r.dag_id, r.run_id FROM milepost_event_runs AS s JOIN milepost_runs AS r ON r.id = s.run
WHERE s.event = :event AND s.pending = 1 ORDER BY r.id

-- event_runs_pending()
-- All runs that events started and that have not ended.
SELECT r.dag_id, r.run_id FROM milepost_event_runs AS s JOIN milepost_runs AS r ON r.id = s.run WHERE s.pending = 1 ORDER BY r.id

-- event_run_settle!(run, pending)
-- A run has ended (0), or is to be run again (1); most runs have no event.
UPDATE milepost_event_runs SET pending = :pending WHERE run = :run

-- event_run_delete!(run)
-- The run goes; its event stays, so that it never starts another one.
DELETE FROM milepost_event_runs WHERE run = :run

-- old_events_count(cutoff)
-- Events whose payload is past its time.
SELECT count(*) FROM milepost_events WHERE at < :cutoff AND payload <> ''

-- old_events_list(cutoff, limit)
-- The first of them, as other lists of what is due.
SELECT NULL, NULL, NULL, NULL, a.name, a.uri, e.event_id FROM milepost_events AS e LEFT JOIN milepost_assets AS a ON a.id = e.asset
WHERE e.at < :cutoff AND e.payload <> '' ORDER BY e.id LIMIT :limit

-- old_events_delete!(cutoff, batch)
-- Drop the payloads of one batch of them. The events stay: a trigger may tell of one again at any time.
UPDATE milepost_events SET payload = '' WHERE at < :cutoff AND payload <> '' ORDER BY id LIMIT :batch
