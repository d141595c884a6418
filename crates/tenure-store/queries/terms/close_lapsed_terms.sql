-- Closes lapsed terms. Touches nothing but the rows that renewals update.
--
-- Races: a renewal holds the row, or has changed it after this statement's snapshot: the lock is waited for, and the row is
-- judged as it is by then (READ COMMITTED evaluates the conditions again). A renewed one has not lapsed and is left alone.
-- The clock is statement_timestamp() throughout: a statement that stalled judges by the time at which it arrived; by
-- clock_timestamp() it would judge an old row by a new clock. The time is also compared with the instant that the caller's
-- own clock expects ($1), for each term within its tolerance: where the database's clock jumped, or the caller froze,
-- nothing is closed. Rows are locked in order, so that two sweeps do not deadlock. Index: the primary key.
WITH lapsed AS MATERIALIZED (
    SELECT t.worker, t.term
    FROM terms AS t
    JOIN unnest($2::text[], $3::bigint[], $4::bigint[]) AS a (worker, term, tolerance_us)
        ON a.worker = t.worker AND a.term = t.term
    WHERE t.closed_at IS NULL
        AND t.expires_at <= statement_timestamp()
        AND abs(extract(epoch FROM statement_timestamp() - $1::timestamptz) * 1000000) <= a.tolerance_us
        AND (SELECT i.timeline FROM installation AS i) = present_timeline()
    ORDER BY t.worker, t.term
    FOR UPDATE OF t
)
UPDATE terms AS t
SET closed_at = statement_timestamp()
FROM lapsed AS l
WHERE t.worker = l.worker AND t.term = l.term
    AND t.closed_at IS NULL AND t.expires_at <= statement_timestamp()
RETURNING t.worker, t.term, t.expires_at AS "expires_at: _"
