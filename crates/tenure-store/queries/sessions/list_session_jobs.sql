-- Lists the jobs of a session, the oldest first. Index: `jobs_session`, which has no tenant in it: the tenant is compared with the few
-- rows that are found.
WITH found AS MATERIALIZED (
    SELECT j.tenant, j.job, j.agent, j.state, j.reason, j.run, j.hops_left FROM jobs AS j WHERE j.session = $2
)
SELECT
    f.job AS "job!", f.agent AS "agent!", f.state AS "state!", f.reason, f.run AS "run!", f.hops_left AS "hops_left!",
    count(f.job) OVER () AS "jobs!"
FROM found AS f
WHERE f.tenant = $1
ORDER BY f.job
LIMIT $3
