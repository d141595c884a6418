-- Reads a page of the terms that are open or still have leases, by name and number: of workers that take jobs of one of the
-- given tenants, and only the leases of their jobs are counted. `*` alone stands for every tenant. Indexes: the primary key, `leases_term`.
SELECT
    t.worker, t.term, t.labels, t.agents, t.slots, t.fencing, t.version, t.ttl_ms,
    t.registered_at AS "registered_at: _",
    t.renewed_at AS "renewed_at: _",
    t.expires_at AS "expires_at: _",
    t.closed_at AS "closed_at?: _",
    l.count AS "leases!"
FROM terms AS t
CROSS JOIN LATERAL (
    SELECT count(l.job) AS count
    FROM leases AS l
    WHERE l.worker = t.worker AND l.term = t.term AND ($4::text[] = '{*}' OR l.tenant = ANY ($4))
) AS l
WHERE (t.worker, t.term) > ($1, $2)
    AND (t.closed_at IS NULL OR l.count > 0)
    AND ($4 = '{*}' OR t.tenants = '{*}' OR t.tenants && $4)
ORDER BY t.worker, t.term
LIMIT $3
