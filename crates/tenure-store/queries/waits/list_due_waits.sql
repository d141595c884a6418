-- Lists waits for an instant that is due, the earliest first, and says when the next one is. Reads only: whoever wakes a job
-- decides from its facts, and two sweeps that find the same wait wake it once. On another timeline than was noted nothing is
-- due. Index: `waits_due`.
SELECT
    d.tenant AS "tenant!",
    d.job AS "job!",
    d.seq AS "seq!"
FROM (
    SELECT w.tenant, w.job, w.seq, w.until
    FROM waits AS w
    WHERE w.jobs = 0
        AND w.until <= statement_timestamp()
        AND (SELECT i.timeline FROM installation AS i) = present_timeline()
    ORDER BY w.until
    LIMIT $1
) AS d
ORDER BY d.until
