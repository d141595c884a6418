-- Lists what arrived too late about effects of a job and matters to a person, in the order of arrival, and how the journal
-- says that each of those attempts ended: what is about a mutating effect in doubt, and what contradicts the journal. At most
-- so many, and of those as many as fit into so many bytes; `found` counts them all. Index: the primary keys, of one job's
-- testimony all.
SELECT
    p.job AS "job!",
    p.key AS "key!",
    p.attempt AS "attempt!",
    p.run AS "run!",
    p.epoch AS "epoch!",
    p.state AS "state!",
    p.disposition AS "disposition?",
    p.arrived_at AS "arrived_at!: _",
    p.value AS "value?",
    p.recorded_state AS "recorded_state?",
    p.recorded_disposition AS "recorded_disposition?",
    p.found AS "found!"
FROM (
    SELECT
        s.job, s.key, s.attempt, s.run, s.epoch, s.n, s.place, s.state, s.disposition, s.arrived_at, s.value,
        s.recorded_state, s.recorded_disposition, s.found,
        row_number() OVER in_order AS nth,
        sum(coalesce(octet_length(s.value), 0)) OVER in_order AS upto_bytes
    FROM (
        SELECT
            t.job, t.key, t.attempt, t.run, t.epoch, t.n, t.place, t.state, t.disposition, t.arrived_at, t.value,
            e.state AS recorded_state, e.disposition AS recorded_disposition,
            count(*) OVER () AS found
        FROM testimony AS t
        CROSS JOIN LATERAL (
            SELECT
                e.state, e.disposition,
                e.mutates AND (e.state = 'started' OR e.disposition IS NOT DISTINCT FROM 'in_doubt') AS in_doubt,
                -- Whether it happened; null: nobody says.
                CASE
                    WHEN e.state = 'done' OR e.disposition = 'landed' THEN true
                    WHEN e.disposition = 'did_not_happen' THEN false
                END AS recorded,
                CASE
                    WHEN t.state = 'done' OR t.disposition = 'landed' THEN true
                    WHEN t.disposition = 'did_not_happen' THEN false
                END AS claimed
            FROM effects AS e
            WHERE e.tenant = t.tenant AND e.job = t.job AND e.key = t.key AND e.attempt = t.attempt
            LIMIT 1
        ) AS e
        WHERE t.tenant = $1 AND t.job = $2 AND (e.in_doubt OR e.claimed <> e.recorded)
        ORDER BY t.arrived_at, t.epoch, t.n, t.place
        LIMIT $3
    ) AS s
    WINDOW in_order AS (ORDER BY s.arrived_at, s.epoch, s.n, s.place ROWS UNBOUNDED PRECEDING)
) AS p
WHERE p.nth = 1 OR p.upto_bytes <= $4
ORDER BY p.arrived_at, p.epoch, p.n, p.place
