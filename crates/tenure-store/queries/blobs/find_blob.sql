-- Finds a blob by the digest that names it. Index: `blobs_named`.
SELECT b.blob, b.bytes AS "bytes!", b.salt, b.content, b.job, b.gone
FROM blobs AS b
WHERE b.tenant = $1 AND b.sha256 = $2
