-- Reads a page of the jobs that wait for a worker, the first submitted first, and tells which of them have waited for a while
-- ($3) although no worker is attached at $2 that would be offered them. The page is of what waits, so that the look is
-- bounded; what nobody takes comes to its front. What a worker with handlers is offered is said in `pick_jobs.sql`.
-- Indexes: the primary keys; terms are as many as workers.
WITH page AS MATERIALIZED (
    SELECT r.tenant, r.job, r.agent, r.requires
    FROM ready AS r
    WHERE r.tenant = $1 AND (r.not_before IS NULL OR r.not_before <= $3)
    ORDER BY r.tenant, r.job
    LIMIT $4
)
SELECT
    p.job::text AS "subject!",
    j.state_since AS "since!: _",
    j.state_since <= $3 AND (
        SELECT count(t.term) FROM terms AS t
        WHERE t.closed_at IS NULL AND t.attach > 0 AND t.expires_at > $2
            AND (t.tenants = '{*}' OR p.tenant = ANY (t.tenants))
            AND (cardinality(t.agents) = 0 OR p.agent = ANY (t.agents))
            AND p.requires <@ t.labels
            AND (
                -- What it holds, if anything.
                SELECT coalesce(bool_or(l.label = ANY (p.requires)), true)
                FROM unnest(t.labels) AS l (label)
                WHERE starts_with(l.label, $5)
            )
    ) = 0 AS "counts!"
FROM page AS p
CROSS JOIN LATERAL (
    SELECT r.state_since FROM jobs AS r WHERE r.tenant = p.tenant AND r.job = p.job LIMIT 1
) AS j
ORDER BY p.job
