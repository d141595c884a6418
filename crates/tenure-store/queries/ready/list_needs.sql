-- Reads a page of the queue, by key, with what each job needs of a worker, for whoever looks for jobs whose handler nobody
-- holds. Reads only; whoever sets such a job aside decides from its facts. Index: the primary key.
SELECT r.tenant, r.job, r.requires
FROM ready AS r
WHERE (r.tenant, r.job) > ($1, $2)
ORDER BY r.tenant, r.job
LIMIT $3
