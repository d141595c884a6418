-- Notes that a pick-up was refused, and when it is tried again. Of two that were refused at the same time the second changes
-- nothing. Index: the primary key.
UPDATE layovers AS l
SET
    refusals = l.refusals + 1,
    refused_at = statement_timestamp(),
    code = $4,
    why = $5,
    try_at = statement_timestamp() + $6::bigint * interval '1 millisecond'
WHERE l.tenant = $1 AND l.job = $2 AND l.refusals = $3
