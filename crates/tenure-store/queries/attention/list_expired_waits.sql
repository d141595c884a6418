-- Reads waits for jobs that expired before anything came of them, the most overdue first. Index: `waits_expired`.
SELECT w.job::text AS "subject!", w.until AS "since!: _"
FROM waits AS w
WHERE w.tenant = $1 AND w.jobs > 0 AND w.until <= $2
ORDER BY w.until, w.job
LIMIT $3
