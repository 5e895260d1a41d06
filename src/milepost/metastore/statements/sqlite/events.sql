-- event_find(asset, hash)
-- The number of an event of an asset; no row: it is new.
SELECT id FROM events WHERE asset = :asset AND hash = :hash

-- event_insert+(asset, hash, event_id, watcher, payload)
-- Record an event.
INSERT INTO events (asset, hash, event_id, watcher, payload, at)
VALUES (:asset, :hash, :event_id, :watcher, :payload, :now)

-- event_run_insert!(run, event)
-- An event starts a run.
INSERT INTO event_runs (run, event, pending) VALUES (:run, :event, 1)

-- event_run_list(event)
-- The runs that an event started and that have not ended.
SELECT r.dag_id, r.run_id FROM event_runs AS s JOIN runs AS r ON r.id = s.run
WHERE s.event = :event AND s.pending = 1 ORDER BY r.id

-- event_runs_pending()
-- All runs that events started and that have not ended.
SELECT r.dag_id, r.run_id FROM event_runs AS s JOIN runs AS r ON r.id = s.run WHERE s.pending = 1 ORDER BY r.id

-- event_run_settle!(run, pending)
-- A run has ended (0), or is to be run again (1); most runs have no event.
UPDATE event_runs SET pending = :pending WHERE run = :run

-- event_run_delete!(run)
-- The run goes; its event stays, so that it never starts another one.
DELETE FROM event_runs WHERE run = :run
