-- Finds a tenant's jobs by the end of their ids. Six digits are looked up in `jobs_ending`, which finds a few rows of any
-- tenant; the tenant, and what is given beyond the six, are compared with those. MATERIALIZED keeps the planner from reading
-- the tenant's jobs in the order of the page instead. `\` and wildcards cannot occur: the caller lets only hexadecimal digits
-- through.
WITH found AS MATERIALIZED (
    SELECT j.tenant, j.job FROM jobs AS j WHERE right(j.job::text, 6) COLLATE "C" = right($2::text, 6)
)
SELECT f.job
FROM found AS f
WHERE f.tenant = $1 AND replace(f.job::text, '-', '') LIKE '%' || $2
ORDER BY f.job DESC
LIMIT $3
