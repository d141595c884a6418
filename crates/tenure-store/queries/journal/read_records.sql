-- Reads a page of a job's journal: at most so many records, and of those as many from the first on as fit into so many bytes
-- of records and values, at least one. Records are never changed, so a page is of one history whoever writes meanwhile. The
-- lengths are taken without reading the values, so what does not fit costs no more than its row. `found` counts the rows that
-- were looked at: where it is more than came, bytes cut the page. Index: the primary key, from the position asked for.
SELECT
    p.seq, p.epoch, p.run, p.kind, p.bytes, p.hash, p.value, p.salt, p.stored_at AS "stored_at: _", p.found AS "found!"
FROM (
    SELECT
        r.seq, r.epoch, r.run, r.kind, r.bytes, r.hash, r.value, r.salt, r.stored_at,
        sum(octet_length(r.bytes) + coalesce(octet_length(r.value), 0)) OVER in_order AS upto_bytes,
        row_number() OVER in_order AS place,
        count(*) OVER () AS found
    FROM (
        SELECT j.seq, j.epoch, j.run, j.kind, j.bytes, j.hash, j.value, j.salt, j.stored_at
        FROM journal AS j
        WHERE j.tenant = $1 AND j.job = $2 AND j.seq >= $3 AND (cardinality($4::text[]) = 0 OR j.kind = ANY ($4))
        ORDER BY j.seq
        LIMIT $5
    ) AS r
    WINDOW in_order AS (ORDER BY r.seq ROWS UNBOUNDED PRECEDING)
) AS p
WHERE p.place = 1 OR p.upto_bytes <= $6
ORDER BY p.seq
