-- Lists what arrived too late about some effects of a job, in the order of arrival, and how the journal says that each of
-- those attempts ended. At most so many, and of those as many as fit into so many bytes. Index: the primary keys, of one
-- job's testimony all.
SELECT
    p.key AS "key!",
    p.attempt AS "attempt!",
    p.run AS "run!",
    p.epoch AS "epoch!",
    p.state AS "state!",
    p.disposition AS "disposition?",
    p.arrived_at AS "arrived_at!: _",
    p.value AS "value?",
    p.recorded_state AS "recorded_state?",
    p.recorded_disposition AS "recorded_disposition?"
FROM (
    SELECT
        t.key, t.attempt, t.run, t.epoch, t.n, t.place, t.state, t.disposition, t.arrived_at, t.value,
        e.state AS recorded_state, e.disposition AS recorded_disposition,
        sum(coalesce(octet_length(t.value), 0)) OVER in_order AS upto_bytes
    FROM (
        SELECT t.key, t.attempt, t.run, t.epoch, t.n, t.place, t.state, t.disposition, t.arrived_at, t.value
        FROM testimony AS t
        WHERE t.tenant = $1 AND t.job = $2 AND t.key = ANY ($3::text[])
        ORDER BY t.arrived_at, t.epoch, t.n, t.place
        LIMIT $4
    ) AS t
    LEFT JOIN LATERAL (
        SELECT e.state, e.disposition FROM effects AS e
        WHERE e.tenant = $1 AND e.job = $2 AND e.key = t.key AND e.attempt = t.attempt
        LIMIT 1
    ) AS e ON true
    WINDOW in_order AS (ORDER BY t.arrived_at, t.epoch, t.n, t.place ROWS UNBOUNDED PRECEDING)
) AS p
WHERE p.upto_bytes <= $5
ORDER BY p.arrived_at, p.epoch, p.n, p.place
