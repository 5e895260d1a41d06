-- stats()
-- Version of the schema, size in bytes, rows by table, the time of the latest write.
SELECT
    (SELECT user_version FROM pragma_user_version),
    (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),
    (SELECT count(*) FROM runs),
    (SELECT count(*) FROM instances),
    (SELECT count(*) FROM entries),
    (SELECT count(*) FROM entries WHERE expires_at <= :now),
    (SELECT count(*) FROM assets),
    (SELECT count(*) FROM changes),
    (SELECT count(*) FROM results),
    (SELECT count(*) FROM intents),
    (SELECT max(latest) FROM (
        SELECT max(updated_at) AS latest FROM runs
        UNION ALL SELECT max(updated_at) FROM instances
        UNION ALL SELECT max(updated_at) FROM entries
        UNION ALL SELECT max(updated_at) FROM assets
        UNION ALL SELECT max(at) FROM changes
        UNION ALL SELECT max(created_at) FROM results
        UNION ALL SELECT max(updated_at) FROM intents
    ))
