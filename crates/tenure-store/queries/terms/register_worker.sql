-- Opens a term. Its number comes from a sequence, so registrations never race. The number of its first answer is the
-- database's time in microseconds.
INSERT INTO terms (
    worker, secret_hash, tenants, labels, agents, slots, ttl_ms, fencing, version, expires_at, answer
)
SELECT
    $1, $2, $3, $4, $5, $6, $7::bigint, $8, $9,
    statement_timestamp() + $7::bigint * interval '1 millisecond',
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM installation AS i
WHERE i.timeline = present_timeline()
RETURNING term, answer, registered_at AS "now: _", (SELECT i.generation FROM installation AS i) AS "generation!"
