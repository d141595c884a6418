-- Lists the latest of what an agent remembers ($3 of it), the latest first. Index: the primary key, backwards.
SELECT m.job AS "job!", m.at AS "at!: _", m.text AS "text!"
FROM memories AS m
WHERE m.tenant = $1 AND m.agent = $2
ORDER BY m.no DESC
LIMIT $3
