-- Reads the tokens, those first that are not revoked. As many as fit into a coordinator's memory; reads the whole table.
SELECT
    t.token, t.hash, t.tenants, t.actor, t.scopes,
    t.expires_at AS "expires_at?: _",
    t.revoked_at AS "revoked_at?: _"
FROM tokens AS t
ORDER BY t.revoked_at IS NOT NULL, t.token
LIMIT $1
