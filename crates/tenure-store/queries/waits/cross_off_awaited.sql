-- Notes for whoever waits what came of jobs that have concluded, and names the waits. Once noted, an outcome stays: an entry
-- leaves the index of open ones, and is never looked at again.
--
-- Races: an entry that another coordinator is noting is passed over (SKIP LOCKED), so two of them never wait for each other,
-- nor for a job that leaves its wait. A wait whose last two entries are noted by two at once is seen whole by neither; each
-- looks once more after its commit.
--
-- Indexes: `awaited_open`, the primary keys of `jobs` and `awaited`.
WITH ended AS MATERIALIZED (
    SELECT o.tenant, o.job, o.awaited, j.state, j.reason
    FROM unnest($1::text[], $2::uuid[]) AS c (tenant, awaited)
    CROSS JOIN LATERAL (
        SELECT j.state, j.reason
        FROM jobs AS j
        WHERE j.tenant = c.tenant AND j.job = c.awaited
            AND j.state IN ('succeeded', 'failed', 'cancelled', 'abandoned', 'expired')
        LIMIT 1
    ) AS j
    CROSS JOIN LATERAL (
        SELECT r.tenant, r.job, r.awaited
        FROM awaited AS r
        WHERE r.tenant = c.tenant AND r.awaited = c.awaited AND r.outcome IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS o
),
crossed AS (
    UPDATE awaited AS r
    SET outcome = e.state, reason = e.reason
    FROM ended AS e
    WHERE r.tenant = e.tenant AND r.job = e.job AND r.awaited = e.awaited
    RETURNING r.tenant, r.job
)
SELECT DISTINCT c.tenant AS "tenant!", c.job AS "job!" FROM crossed AS c
