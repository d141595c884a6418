-- Reads a page of the waits, by key, and tells for each job whether its session's deadline is reached. A page at a time,
-- because the deadline stands in the session alone and no index leads from it to the waits. Reads only; whoever concludes
-- such a job decides from its facts. Indexes: the primary keys.
WITH page AS MATERIALIZED (
    SELECT w.tenant, w.job
    FROM waits AS w
    WHERE (w.tenant, w.job) > ($1, $2)
    ORDER BY w.tenant, w.job
    LIMIT $3
)
SELECT p.tenant, p.job, s.deadline_at <= statement_timestamp() AS "overdue?"
FROM page AS p
CROSS JOIN LATERAL (
    SELECT j.session FROM jobs AS j WHERE j.tenant = p.tenant AND j.job = p.job LIMIT 1
) AS j
CROSS JOIN LATERAL (
    SELECT r.deadline_at FROM sessions AS r WHERE r.tenant = p.tenant AND r.session = j.session LIMIT 1
) AS s
ORDER BY p.tenant, p.job
