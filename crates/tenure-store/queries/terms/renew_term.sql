-- Renews a term and reads what stands at its runs.
--
-- Races: a closing updates the same row. Whoever comes second waits, and then judges the row as the first left it: closed,
-- and nothing is renewed; or renewed, and it has not lapsed. A renewal that waited counts from its own arrival
-- (statement_timestamp), never later, and never takes back what a later one gave.
--
-- An echo older than one ttl renews nothing and is answered all the same: only a worker that hears is alive to us. A term
-- that lapsed and was not closed may be renewed. Indexes: the primary key; `leases_term`; a HOT update.
WITH renewed AS (
    UPDATE terms AS t
    SET
        answer = greatest(t.answer + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint),
        renewed_at = CASE
            WHEN (extract(epoch FROM statement_timestamp()) * 1000000)::bigint - $4 <= t.ttl_ms * 1000
                THEN greatest(t.renewed_at, statement_timestamp())
            ELSE t.renewed_at
        END,
        expires_at = CASE
            WHEN (extract(epoch FROM statement_timestamp()) * 1000000)::bigint - $4 <= t.ttl_ms * 1000
                THEN greatest(t.expires_at, statement_timestamp() + t.ttl_ms * interval '1 millisecond')
            ELSE t.expires_at
        END
    WHERE t.worker = $1 AND t.term = $2 AND t.attach = $3 AND t.closed_at IS NULL
        AND (SELECT i.timeline FROM installation AS i) = present_timeline()
    RETURNING
        t.answer, t.expires_at,
        (extract(epoch FROM statement_timestamp()) * 1000000)::bigint - $4 <= t.ttl_ms * 1000 AS hears
),
standing AS (
    SELECT
        l.tenant, l.job, l.run_epoch, l.run, l.generation,
        -- After an abandon nothing is written, and after a cancel no steer.
        coalesce(l.abandon_seq, j.cancel_seq, l.steer_seq) AS notice,
        CASE
            WHEN l.abandon_seq IS NOT NULL THEN 'abandon_requested'
            WHEN j.cancel_seq IS NOT NULL THEN 'cancel_requested'
            ELSE 'steered'
        END AS kind
    FROM leases AS l
    JOIN jobs AS j ON j.tenant = l.tenant AND j.job = l.job
    WHERE l.worker = $1 AND l.term = $2 AND l.released_at IS NULL
        AND (
            l.abandon_seq IS NOT NULL
            OR l.steer_seq IS NOT NULL
            -- A run that undoes because of the cancel is what was asked for.
            OR (j.cancel_seq IS NOT NULL AND j.unwinding ->> 'instead_of' IS DISTINCT FROM 'cancelled')
        )
)
SELECT
    r.answer AS "answer!",
    r.expires_at AS "expires_at!: _",
    r.hears AS "hears!",
    statement_timestamp() AS "now!: _",
    s.tenant AS "tenant?",
    s.job AS "job?",
    s.run_epoch AS "epoch?",
    s.run AS "run?",
    s.generation AS "generation?",
    s.notice AS "notice?",
    s.kind AS "kind?"
FROM renewed AS r
LEFT JOIN standing AS s ON r.hears
