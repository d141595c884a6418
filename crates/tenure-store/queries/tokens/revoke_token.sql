-- Revokes a token; the first instant stands, whoever else revokes it. Index: the primary key.
UPDATE tokens AS t
SET revoked_at = coalesce(t.revoked_at, statement_timestamp())
WHERE t.token = $1
