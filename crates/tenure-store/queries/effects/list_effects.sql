-- Lists the attempts at a job's effects in the order of their announcements, after a seq: all of them, or ($4) those that
-- mutate and of which nobody knows whether they happened. An attempt without an outcome is under way while the run that
-- announced it holds the job; it is no doubt then. At most so many, and of those as many from the first on as fit into so
-- many bytes of values, at least one; `found` counts the rows that were looked at: where it is more than came, bytes cut the
-- page. Index: the primary keys, of one job's effects all; there is no index by the announcement, which would cost every
-- announcement what a listing saves.
SELECT
    p.key AS "key!",
    p.attempt AS "attempt!",
    p.state AS "state!",
    p.disposition AS "disposition?",
    p.recovery AS "recovery!",
    p.mutates AS "mutates!",
    p.tool AS "tool!",
    p.compensation AS "compensation!",
    p.request AS "request!",
    p.run AS "run!",
    p.announced_seq AS "announced_seq!",
    p.announced_at AS "announced_at!: _",
    p.outcome_seq AS "outcome_seq?",
    p.outcome_bytes AS "outcome_bytes?",
    p.value AS "value?",
    p.under_way AS "under_way!",
    p.found AS "found!"
FROM (
    SELECT
        e.key, e.attempt, e.state, e.disposition, e.recovery, e.mutates, e.tool, e.compensation, e.request, e.run,
        e.announced_seq, a.at AS announced_at, e.outcome_seq, o.bytes AS outcome_bytes, o.value, e.under_way,
        sum(octet_length(e.key) + coalesce(octet_length(o.value), 0)) OVER in_order AS upto_bytes,
        row_number() OVER in_order AS place,
        count(*) OVER () AS found
    FROM (
        SELECT
            d.tenant, d.job, d.key, d.attempt, d.state, d.disposition, d.recovery, d.mutates, d.tool, d.compensation,
            d.request, d.run, d.announced_seq, d.outcome_seq, d.under_way
        FROM (
            SELECT
                e.tenant, e.job, e.key, e.attempt, e.state, e.disposition, e.recovery, e.mutates, e.tool,
                e.compensation, e.request, e.run, e.announced_seq, e.outcome_seq,
                e.state = 'started' AND coalesce(e.run = l.run, false) AS under_way
            FROM effects AS e
            LEFT JOIN LATERAL (
                SELECT l.run FROM leases AS l
                WHERE l.tenant = $1 AND l.job = $2 AND l.released_at IS NULL
                LIMIT 1
            ) AS l ON true
            WHERE e.tenant = $1 AND e.job = $2 AND e.announced_seq > $3
        ) AS d
        WHERE NOT $4 OR (d.mutates AND (d.state = 'started' OR d.disposition = 'in_doubt') AND NOT d.under_way)
        ORDER BY d.announced_seq
        LIMIT $5
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
    WINDOW in_order AS (ORDER BY e.announced_seq ROWS UNBOUNDED PRECEDING)
) AS p
WHERE p.place = 1 OR p.upto_bytes <= $6
ORDER BY p.announced_seq
