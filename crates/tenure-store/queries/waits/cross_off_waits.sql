-- The same as `cross_off_awaited`, for everything that these waits are for: a job may have concluded before the wait for it was
-- committed, unseen by it. Indexes: `awaited_left`, the primary keys of `jobs` and `awaited`.
WITH ended AS MATERIALIZED (
    SELECT o.tenant, o.job, o.awaited, j.state, j.reason
    FROM unnest($1::text[], $2::uuid[]) AS c (tenant, job)
    CROSS JOIN LATERAL (
        SELECT r.tenant, r.job, r.awaited
        FROM awaited AS r
        WHERE r.tenant = c.tenant AND r.job = c.job AND coalesce(r.outcome, '') = ''
        FOR UPDATE SKIP LOCKED
    ) AS o
    CROSS JOIN LATERAL (
        SELECT j.state, j.reason
        FROM jobs AS j
        WHERE j.tenant = o.tenant AND j.job = o.awaited
            AND j.state IN ('succeeded', 'failed', 'cancelled', 'abandoned', 'expired')
        LIMIT 1
    ) AS j
)
UPDATE awaited AS r
SET outcome = e.state, reason = e.reason
FROM ended AS e
WHERE r.tenant = e.tenant AND r.job = e.job AND r.awaited = e.awaited
