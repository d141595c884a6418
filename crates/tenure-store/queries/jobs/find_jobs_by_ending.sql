-- Finds jobs by the end of their ids. Six digits are looked up in `jobs_ending`; what is given beyond them is compared
-- with the few that are left. `\` and wildcards cannot occur: the caller lets only hexadecimal digits through.
SELECT j.job
FROM jobs AS j
WHERE j.tenant = $1
    AND right(j.job::text, 6) COLLATE "C" = right($2::text, 6)
    AND replace(j.job::text, '-', '') LIKE '%' || $2
ORDER BY j.job DESC
LIMIT $3
