-- Lists unreleased leases whose run was asked longer ago than $1 milliseconds to end, because somebody gave the job up or redirected
-- it; oldest first. Reads only; the settlement that follows decides from facts whether the run had time enough to answer.
-- Index: `leases_noticed`, which holds only such leases.
SELECT l.tenant, l.job
FROM leases AS l
WHERE least(l.abandoned_at, l.steered_at) <= statement_timestamp() - $1::bigint * interval '1 millisecond'
    AND l.released_at IS NULL
ORDER BY least(l.abandoned_at, l.steered_at)
LIMIT $2
