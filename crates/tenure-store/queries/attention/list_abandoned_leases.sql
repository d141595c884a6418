-- Reads leases whose runs are unsettled although their terms lapsed a while ago ($2), the longest first. There are as many
-- leases as runs. Indexes: the primary keys.
SELECT l.job::text AS "subject!", coalesce(t.expires_at, l.granted_at) AS "since!: _"
FROM leases AS l
LEFT JOIN terms AS t ON t.worker = l.worker AND t.term = l.term
WHERE l.tenant = $1 AND l.released_at IS NULL AND coalesce(t.expires_at, l.granted_at) <= $2
ORDER BY 2, 1
LIMIT $3
