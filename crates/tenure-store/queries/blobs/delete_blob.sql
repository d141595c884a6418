-- Forgets a blob whose pieces are deleted. Index: the primary key.
DELETE FROM blobs AS b WHERE b.tenant = $1 AND b.blob = $2 AND b.gone
