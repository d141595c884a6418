-- Reads work that was set down and whose pick-up was refused, the longest ago first. Index: `layovers_refused`.
SELECT l.job::text AS "subject!", l.refused_at AS "since!: _"
FROM layovers AS l
WHERE l.tenant = $1 AND l.refusals > 0 AND l.refused_at <= $2
ORDER BY l.refused_at, l.job
LIMIT $3
