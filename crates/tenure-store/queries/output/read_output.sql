-- Reads a run's chunks in the order of capture. Index: the primary key, from the chunk asked for.
SELECT o.chunk, o.stream, o.bytes
FROM output AS o
WHERE o.tenant = $1 AND o.job = $2 AND o.run = $3 AND o.chunk >= $4 AND ($5::text IS NULL OR o.stream = $5)
ORDER BY o.chunk
LIMIT $6
