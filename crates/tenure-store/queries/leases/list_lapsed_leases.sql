-- Lists every unreleased lease under a closed term, oldest first: also one whose claim committed after the closing, which
-- the closer's own list cannot have. Reads only; the settlement that follows checks the lease. Indexes: closed terms are
-- few and found by reading `terms`; their leases by `leases_term`.
SELECT l.tenant, l.job
FROM terms AS t
JOIN leases AS l ON l.worker = t.worker AND l.term = t.term
WHERE t.closed_at IS NOT NULL AND l.released_at IS NULL
ORDER BY l.granted_at, l.tenant, l.job
LIMIT $1
