-- Reads the last attempt under a key, with what its outcome left. Reads only: permission to act comes from the statement that
-- writes an announcement. Index: the primary key, backwards; the journal by its own.
SELECT
    e.key AS "key!",
    e.attempt AS "attempt!",
    e.state AS "state!",
    e.disposition AS "disposition?",
    e.recovery AS "recovery!",
    e.mutates AS "mutates!",
    e.tool AS "tool!",
    e.compensation AS "compensation!",
    e.request AS "request!",
    e.run AS "run!",
    e.announced_seq AS "announced_seq!",
    a.at AS "announced_at!: _",
    e.outcome_seq AS "outcome_seq?",
    o.bytes AS "outcome_bytes?",
    o.value AS "value?",
    false AS "under_way!",
    1::bigint AS "found!"
FROM (
    SELECT
        e.tenant, e.job, e.key, e.attempt, e.state, e.disposition, e.recovery, e.mutates, e.tool, e.compensation,
        e.request, e.run, e.announced_seq, e.outcome_seq
    FROM effects AS e
    WHERE e.tenant = $1 AND e.job = $2 AND e.key = $3
    ORDER BY e.attempt DESC
    LIMIT 1
) AS e
CROSS JOIN LATERAL (
    SELECT r.at FROM journal AS r
    WHERE r.tenant = e.tenant AND r.job = e.job AND r.seq = e.announced_seq
    LIMIT 1
) AS a
LEFT JOIN LATERAL (
    SELECT r.bytes, r.value FROM journal AS r
    WHERE r.tenant = e.tenant AND r.job = e.job AND r.seq = e.outcome_seq
    LIMIT 1
) AS o ON true
