-- Reads a page of a job's journal. Records are never changed, so a page is of one history whoever writes meanwhile.
-- Index: the primary key, from the position asked for.
SELECT
    j.seq, j.epoch, j.run, j.kind, j.bytes, j.hash, j.value, j.salt, j.stored_at AS "stored_at: _"
FROM journal AS j
WHERE j.tenant = $1 AND j.job = $2 AND j.seq >= $3 AND (cardinality($4::text[]) = 0 OR j.kind = ANY ($4))
ORDER BY j.seq
LIMIT $5
