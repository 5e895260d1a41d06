-- stats()
-- Version of the schema, size in bytes, rows by table, the time of the latest write.
SELECT
    (SELECT max(version) FROM milepost_migrations),
    (SELECT CAST(sum(data_length + index_length) AS SIGNED) FROM information_schema.tables
        WHERE table_schema = database() AND left(table_name, 9) = 'milepost_'),
    (SELECT count(*) FROM milepost_runs),
    (SELECT count(*) FROM milepost_instances),
    (SELECT count(*) FROM milepost_entries),
    (SELECT count(*) FROM milepost_entries WHERE expires_at <= :now),
    (SELECT count(*) FROM milepost_assets),
    (SELECT count(*) FROM milepost_changes),
    (SELECT count(*) FROM milepost_results),
    (SELECT count(*) FROM milepost_intents),
    (SELECT max(latest) FROM (
        SELECT max(updated_at) AS latest FROM milepost_runs
        UNION ALL SELECT max(updated_at) FROM milepost_instances
        UNION ALL SELECT max(updated_at) FROM milepost_entries
        UNION ALL SELECT max(updated_at) FROM milepost_assets
        UNION ALL SELECT max(at) FROM milepost_changes
        UNION ALL SELECT max(created_at) FROM milepost_results
        UNION ALL SELECT max(updated_at) FROM milepost_intents
    ) AS all_tables)
