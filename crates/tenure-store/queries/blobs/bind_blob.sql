-- Binds a stored blob to the job that is about to be submitted with it. Of two submissions that name one blob, the second
-- waits for the first, and finds the blob bound. Index: `blobs_named`.
UPDATE blobs AS b
SET job = $3, touched_at = statement_timestamp()
WHERE b.tenant = $1 AND b.sha256 = $2 AND b.job IS NULL AND NOT b.gone
RETURNING b.blob
