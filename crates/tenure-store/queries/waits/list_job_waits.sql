-- Reads a page of the waits for jobs, by key. Index: the primary key.
SELECT w.tenant, w.job
FROM waits AS w
WHERE w.jobs > 0 AND (w.tenant, w.job) > ($1, $2)
ORDER BY w.tenant, w.job
LIMIT $3
