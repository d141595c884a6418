-- The blobs whose pieces are to be deleted; of one job, where that is given. Index: `blobs_gone`.
SELECT b.tenant, b.blob
FROM blobs AS b
WHERE b.gone AND ($1::text IS NULL OR b.tenant = $1) AND ($2::uuid IS NULL OR b.job = $2)
ORDER BY b.tenant, b.blob
LIMIT $3
