-- outcome_put!(run, task_id, map_index, attempt, state, error)
-- Record how an attempt failed, or what became of a task that was not started (attempt 0).
INSERT INTO milepost.outcomes (run, task_id, map_index, attempt, state, error, at)
VALUES (:run, :task_id, :map_index, :attempt, :state, :error, :now)
ON CONFLICT (run, task_id, map_index, attempt) DO UPDATE SET
    state = excluded.state, error = excluded.error, at = excluded.at

-- outcome_list(run_hash)
-- The outcomes of a run.
SELECT o.task_id, o.map_index, o.attempt, o.state, o.error, o.at
FROM milepost.runs AS r JOIN milepost.outcomes AS o ON o.run = r.id
WHERE r.hash = :run_hash ORDER BY o.task_id, o.map_index, o.attempt

-- outcome_drop_unstarted!(run)
-- The run goes on: tasks that were not started may be.
DELETE FROM milepost.outcomes WHERE run = :run AND attempt = 0

-- outcome_drop!(run)
-- Forget the outcomes of a run.
DELETE FROM milepost.outcomes WHERE run = :run
