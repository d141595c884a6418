-- Tells which of these jobs wait for jobs of which none is left. Reads only: whoever wakes one decides from its facts. Indexes:
-- the primary key of `waits`, `awaited_left`.
SELECT w.tenant AS "tenant!", w.job AS "job!", w.seq AS "seq!"
FROM unnest($1::text[], $2::uuid[]) AS c (tenant, job)
CROSS JOIN LATERAL (
    SELECT r.tenant, r.job, r.seq
    FROM waits AS r
    WHERE r.tenant = c.tenant AND r.job = c.job AND r.jobs > 0
    LIMIT 1
) AS w
WHERE (
    SELECT o.awaited FROM awaited AS o
    WHERE o.tenant = w.tenant AND o.job = w.job AND coalesce(o.outcome, '') = ''
    LIMIT 1
) IS NULL
    AND (SELECT i.timeline FROM installation AS i) = present_timeline()
