-- Lists every unreleased lease under a closed term, oldest first: also one whose claim committed after the closing, which
-- the closer's own list cannot have, and one whose term has no row at all. Listed
-- page by page, so that what cannot be settled does not stand before the rest. Reads only; the settlement that follows
-- checks the lease. Indexes: whoever holds leases is found by stepping along `leases_term`, one probe for each holder, because the
-- table may be large and its holders are few; their terms by the primary key, their leases by `leases_term`.
WITH RECURSIVE holders AS (
    -- Before all: no worker is called so.
    SELECT ''::text COLLATE "C" AS worker, 0::bigint AS term
    UNION ALL
    SELECT n.worker, n.term
    FROM holders AS h
    CROSS JOIN LATERAL (
        SELECT l.worker, l.term
        FROM leases AS l
        WHERE (l.worker, l.term) > (h.worker, h.term)
        ORDER BY l.worker, l.term
        LIMIT 1
    ) AS n
),
lapsed AS MATERIALIZED (
    SELECT h.worker, h.term
    FROM holders AS h
    LEFT JOIN LATERAL (
        SELECT t.worker, t.closed_at FROM terms AS t WHERE t.worker = h.worker AND t.term = h.term LIMIT 1
    ) AS t ON true
    WHERE t.worker IS NULL OR t.closed_at IS NOT NULL
)
SELECT l.tenant AS "tenant!", l.job AS "job!", l.granted_at AS "granted_at!: _"
FROM lapsed AS p
CROSS JOIN LATERAL (
    SELECT l.tenant, l.job, l.granted_at
    FROM leases AS l
    WHERE l.worker = p.worker AND l.term = p.term AND l.released_at IS NULL
        AND ($2::timestamptz IS NULL OR (l.granted_at, l.tenant, l.job) > ($2, $3::text, $4::uuid))
    ORDER BY l.granted_at, l.tenant, l.job
    LIMIT $1
) AS l
ORDER BY l.granted_at, l.tenant, l.job
LIMIT $1
