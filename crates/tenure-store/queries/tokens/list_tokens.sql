-- Reads the tokens, those first that are neither revoked nor expired. As many as fit into a coordinator's memory; reads the
-- whole table.
SELECT
    t.token, t.hash, t.tenants, t.actor, t.scopes,
    t.expires_at AS "expires_at?: _",
    t.revoked_at AS "revoked_at?: _"
FROM tokens AS t
ORDER BY t.revoked_at IS NOT NULL OR coalesce(t.expires_at <= statement_timestamp(), FALSE), t.token
LIMIT $1
