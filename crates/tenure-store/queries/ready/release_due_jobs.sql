-- Gives delayed jobs that are due their number in the queue, the earliest first. A row that somebody else is working on is
-- passed over and found in the next pass, so two sweeps do not wait for each other. Touches no job and no journal.
-- Index: `ready_due`.
WITH due AS MATERIALIZED (
    SELECT r.tenant, r.job
    FROM ready AS r
    WHERE r.not_before <= statement_timestamp()
        AND (SELECT i.timeline FROM installation AS i) = present_timeline()
    ORDER BY r.not_before
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
released AS (
    UPDATE ready AS r
    SET not_before = NULL, queue_no = nextval('queue_numbers')
    FROM due AS d
    WHERE r.tenant = d.tenant AND r.job = d.job
    RETURNING r.job
)
SELECT
    (SELECT count(r.job) FROM released AS r) AS "released!",
    -- Of the snapshot: where more were due than were released, this is in the past, and the caller comes again at once.
    (
        SELECT q.not_before FROM ready AS q
        WHERE q.not_before IS NOT NULL AND (q.tenant, q.job) NOT IN (SELECT d.tenant, d.job FROM due AS d)
        ORDER BY q.not_before
        LIMIT 1
    ) AS "next_at: _",
    statement_timestamp() AS "now!: _"
