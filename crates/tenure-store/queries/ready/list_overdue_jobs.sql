-- Reads a page of the queue, by key, and tells for each job whether its session's deadline is reached (undoing meets no deadline): claims find such a job
-- only where a worker wants it. A page at a time, because the deadline stands in the session alone and no index leads from
-- it to the queue. Reads only; whoever concludes such a job decides from its facts. Indexes: the primary keys.
WITH page AS MATERIALIZED (
    SELECT r.tenant, r.job
    FROM ready AS r
    WHERE (r.tenant, r.job) > ($1, $2)
    ORDER BY r.tenant, r.job
    LIMIT $3
)
SELECT p.tenant, p.job, j.unwinding IS NULL AND s.deadline_at <= statement_timestamp() AS "overdue?"
FROM page AS p
CROSS JOIN LATERAL (
    SELECT j.session, j.unwinding FROM jobs AS j WHERE j.tenant = p.tenant AND j.job = p.job LIMIT 1
) AS j
CROSS JOIN LATERAL (
    SELECT r.deadline_at FROM sessions AS r WHERE r.tenant = p.tenant AND r.session = j.session LIMIT 1
) AS s
ORDER BY p.tenant, p.job
