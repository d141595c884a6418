-- Keeps outcomes of effects that arrived too late to be recorded. They stand outside the chain and fence nobody, so nothing
-- is checked but that the attempt was announced, by this run or one before it: what is said about nothing, or about what
-- another run announced after this one, is not kept. Of one attempt at most so many are kept ($12; two coordinators that
-- keep at the same time may each add theirs). The same report gets its place once, whoever keeps it again: its number in its
-- run is the key, and the first is not changed. Returns what it kept, and how the journal says that the attempt ended.
-- Index: the primary keys, of one job's testimony all.
WITH said AS (
    SELECT
        t.tenant, t.job, t.epoch, t.n, t.place, t.run, t.key, t.attempt, t.state, t.disposition, t.value,
        row_number() OVER (
            PARTITION BY t.tenant, t.job, t.key, t.attempt ORDER BY t.epoch, t.n, t.place
        ) AS nth
    FROM unnest(
        $1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::text[], $8::integer[],
        $9::text[], $10::text[], $11::bytea[]
    ) AS t (tenant, job, epoch, n, place, run, key, attempt, state, disposition, value)
),
kept AS (
    INSERT INTO testimony (tenant, job, epoch, n, place, run, key, attempt, state, disposition, value)
    SELECT s.tenant, s.job, s.epoch, s.n, s.place, s.run, s.key, s.attempt, s.state, s.disposition, s.value
    FROM said AS s
    WHERE
        -- A later run may have announced what this one was never permitted to.
        (
            SELECT e.epoch FROM effects AS e
            WHERE e.tenant = s.tenant AND e.job = s.job AND e.key = s.key AND e.attempt = s.attempt
        ) <= s.epoch
        AND s.nth + (
            SELECT count(k.n) FROM testimony AS k
            WHERE k.tenant = s.tenant AND k.job = s.job AND k.key = s.key AND k.attempt = s.attempt
        ) <= $12
    ORDER BY s.tenant, s.job, s.epoch, s.n, s.place
    ON CONFLICT DO NOTHING
    RETURNING tenant, job, epoch, n, place, run, key, attempt, state, disposition, arrived_at
)
SELECT
    k.job AS "job!",
    k.key AS "key!",
    k.attempt AS "attempt!",
    k.run AS "run!",
    k.epoch AS "epoch!",
    k.state AS "state!",
    k.disposition AS "disposition?",
    k.arrived_at AS "arrived_at!: _",
    NULL::bytea AS "value?",
    e.state AS "recorded_state?",
    e.disposition AS "recorded_disposition?",
    0::bigint AS "found!"
FROM kept AS k
CROSS JOIN LATERAL (
    SELECT e.state, e.disposition FROM effects AS e
    WHERE e.tenant = k.tenant AND e.job = k.job AND e.key = k.key AND e.attempt = k.attempt
    LIMIT 1
) AS e
ORDER BY k.tenant, k.job, k.epoch, k.n, k.place
