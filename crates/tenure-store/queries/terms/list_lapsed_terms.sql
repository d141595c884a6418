-- Lists terms that lapsed and are not closed, longest lapsed first. A hint only: the closing judges again. Reads the whole
-- table, which has one row for each worker; an index on what every renewal changes would cost more.
SELECT t.worker, t.term, t.ttl_ms, t.expires_at AS "expires_at: _"
FROM terms AS t
WHERE t.closed_at IS NULL AND t.expires_at <= statement_timestamp()
ORDER BY t.expires_at
LIMIT $1
