-- Lists what was set down and is due, the earliest first. Reads only: whoever picks one up submits under a key of its own, so
-- that two coordinators that find the same make one session. On another timeline than was noted nothing is due. Index:
-- `layovers_tried`.
SELECT
    d.tenant AS "tenant!",
    d.job AS "job!",
    d.seq AS "seq!",
    d.refusals AS "refusals!"
FROM (
    SELECT l.tenant, l.job, l.seq, l.refusals, l.try_at
    FROM layovers AS l
    WHERE l.try_at <= statement_timestamp()
        AND (SELECT i.timeline FROM installation AS i) = present_timeline()
    ORDER BY l.try_at
    LIMIT $1
) AS d
ORDER BY d.try_at
