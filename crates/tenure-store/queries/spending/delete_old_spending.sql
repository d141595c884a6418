-- Deletes what tenants spent longer ago than is kept, at most so many minutes of it at a time; rows that count are never touched.
-- Index: none leads by the minute alone; the table has at most as many rows as tenants that spend have minutes, and is read whole
-- once an hour.
DELETE FROM spending AS p
USING (
    SELECT q.tenant, q.minute
    FROM spending AS q
    WHERE q.minute < statement_timestamp() - $1::bigint * interval '1 millisecond'
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
) AS old
WHERE p.tenant = old.tenant AND p.minute = old.minute
