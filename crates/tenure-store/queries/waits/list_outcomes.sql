-- Reads what came of the jobs that a job waits for, in the order in which they were asked for. Index: the primary key.
SELECT o.awaited, o.outcome AS "outcome!", o.reason
FROM awaited AS o
WHERE o.tenant = $1 AND o.job = $2 AND o.outcome IS NOT NULL
ORDER BY o.place
