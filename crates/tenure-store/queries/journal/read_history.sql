-- Reads a page of what a handover is composed from, as `read_records` reads a journal. Of values it takes what a handover tells:
-- none of an announcement, the first $7 bytes of an outcome, and those of the other kinds whole. Index: the primary key, from
-- the position asked for.
SELECT
    p.seq, p.epoch, p.run, p.kind, p.bytes, p.hash,
    CASE
        WHEN p.kind IN ('effect_done', 'effect_failed', 'effect_reconciled') THEN substring(p.value FROM 1 FOR $7::integer)
        WHEN p.kind <> 'effect_started' THEN p.value
    END AS "value?",
    NULL::bytea AS "salt?",
    p.stored_at AS "stored_at: _",
    p.found AS "found!"
FROM (
    SELECT
        r.seq, r.epoch, r.run, r.kind, r.bytes, r.hash, r.value, r.stored_at,
        sum(octet_length(r.bytes) + CASE
            WHEN r.kind = 'effect_started' THEN 0
            WHEN r.kind IN ('effect_done', 'effect_failed', 'effect_reconciled')
                THEN least(coalesce(octet_length(r.value), 0), $7::integer)
            ELSE coalesce(octet_length(r.value), 0)
        END) OVER in_order AS upto_bytes,
        row_number() OVER in_order AS place,
        count(*) OVER () AS found
    FROM (
        SELECT j.seq, j.epoch, j.run, j.kind, j.bytes, j.hash, j.value, j.stored_at
        FROM journal AS j
        WHERE j.tenant = $1 AND j.job = $2 AND j.seq >= $3 AND j.kind = ANY ($4)
        ORDER BY j.seq
        LIMIT $5
    ) AS r
    WINDOW in_order AS (ORDER BY r.seq ROWS UNBOUNDED PRECEDING)
) AS p
WHERE p.place = 1 OR p.upto_bytes <= $6
ORDER BY p.seq
