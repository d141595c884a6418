-- Reads a page of the jobs that stopped in this state, newest first. Index: `stopped_jobs_newest`.
SELECT s.job::text AS "subject!", s.since AS "since!: _"
FROM stopped_jobs AS s
WHERE s.tenant = $1 AND s.state = $2 AND s.since <= $3
ORDER BY s.since DESC, s.job DESC
LIMIT $4
