-- Tells why a term was refused. Reads only, after the refusal. Index: the primary key.
SELECT
    t.attach,
    t.secret_hash,
    t.tenants,
    t.closed_at IS NOT NULL AS "closed!",
    t.expires_at <= statement_timestamp() AS "lapsed!"
FROM terms AS t
WHERE t.worker = $1 AND t.term = $2
