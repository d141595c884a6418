-- Reads a page of the failed jobs, newest first, and tells which of them hold work that took effect and was not undone.
-- The page is of failed jobs, so that the look is bounded however few of them hold any. Indexes: `stopped_jobs_newest`, the
-- primary key of `effects`.
WITH page AS MATERIALIZED (
    SELECT s.tenant, s.job, s.since
    FROM stopped_jobs AS s
    WHERE s.tenant = $1 AND s.state = 'failed' AND s.since <= $2
    ORDER BY s.since DESC, s.job DESC
    LIMIT $3
)
SELECT
    p.job::text AS "subject!",
    p.since AS "since!: _",
    (
        SELECT count(e.attempt) FROM effects AS e
        WHERE e.tenant = p.tenant AND e.job = p.job AND e.mutates
            AND (e.state = 'done' OR e.disposition = 'landed')
            AND NOT starts_with(e.key, 'undo:')
            AND NOT (e.compensation = 'undo' AND (
                SELECT count(u.attempt) FROM effects AS u
                WHERE u.tenant = e.tenant AND u.job = e.job AND u.key = 'undo:' || e.key
                    AND (u.state = 'done' OR u.disposition = 'landed')
            ) > 0)
    ) > 0 AS "counts!"
FROM page AS p
ORDER BY p.since DESC, p.job DESC
