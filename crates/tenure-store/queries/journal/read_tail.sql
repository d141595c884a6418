-- Reads a job's journal from a position on, without the records themselves, and in each row where the journal ends. One
-- statement, so the head and the rows are of one moment. Index: the primary key, from the position asked for.
SELECT
    h.seq AS head_seq,
    h.hash AS head_hash,
    h.epoch AS head_epoch,
    h.run AS head_run,
    h.at AS "head_at: _",
    r.seq AS "seq?",
    r.epoch AS "epoch?",
    r.run AS "run?",
    r.n,
    r.request,
    r.kind AS "kind?"
FROM (
    SELECT j.seq, j.hash, j.epoch, j.run, j.at
    FROM journal AS j
    WHERE j.tenant = $1 AND j.job = $2
    ORDER BY j.seq DESC
    LIMIT 1
) AS h
LEFT JOIN LATERAL (
    SELECT j.seq, j.epoch, j.run, j.n, j.request, j.kind
    FROM journal AS j
    WHERE j.tenant = $1 AND j.job = $2 AND j.seq >= $3
    ORDER BY j.seq
    LIMIT $4
) AS r ON true
ORDER BY r.seq
