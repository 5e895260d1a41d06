-- stats()
-- Version of the schema, size in bytes, rows by table, the time of the latest write.
SELECT
    (SELECT max(version) FROM milepost.migrations),
    (SELECT CAST(sum(pg_total_relation_size(c.oid)) AS bigint) FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'milepost' AND c.relkind = 'r'),
    (SELECT count(*) FROM milepost.runs),
    (SELECT count(*) FROM milepost.instances),
    (SELECT count(*) FROM milepost.entries),
    (SELECT count(*) FROM milepost.entries WHERE expires_at <= :now),
    (SELECT count(*) FROM milepost.assets),
    (SELECT count(*) FROM milepost.changes),
    (SELECT count(*) FROM milepost.results),
    (SELECT count(*) FROM milepost.intents),
    (SELECT max(latest) FROM (
        SELECT max(updated_at) AS latest FROM milepost.runs
        UNION ALL SELECT max(updated_at) FROM milepost.instances
        UNION ALL SELECT max(updated_at) FROM milepost.entries
        UNION ALL SELECT max(updated_at) FROM milepost.assets
        UNION ALL SELECT max(at) FROM milepost.changes
        UNION ALL SELECT max(created_at) FROM milepost.results
        UNION ALL SELECT max(updated_at) FROM milepost.intents
    ) AS all_tables)
