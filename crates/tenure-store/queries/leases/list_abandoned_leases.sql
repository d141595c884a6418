-- Lists unreleased leases whose job was given up longer ago than $1 milliseconds, oldest first. Reads only; the settlement
-- that follows decides from facts whether the run had time enough to answer. Index: `leases_abandoned`, which holds only such leases.
SELECT l.tenant, l.job
FROM leases AS l
WHERE l.abandoned_at <= statement_timestamp() - $1::bigint * interval '1 millisecond' AND l.released_at IS NULL
ORDER BY l.abandoned_at
LIMIT $2
