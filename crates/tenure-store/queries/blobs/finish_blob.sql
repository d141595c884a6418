-- Notes that all of a blob was stored, and under which digest; a result is bound to its job at once. A sweep that took the row
-- for a broken upload meanwhile has won: nothing is returned then. Index: the primary key.
UPDATE blobs AS b
SET sha256 = $3, bytes = $4, salt = $5, content = $6, job = $7, touched_at = statement_timestamp()
WHERE b.tenant = $1 AND b.blob = $2 AND b.sha256 IS NULL AND NOT b.gone
RETURNING b.blob
