-- Stores what is kept of a new token. Its id is random: of two with the same the second is refused by the primary key. Its
-- end is counted from the time of this statement.
INSERT INTO tokens (token, hash, tenants, actor, scopes, expires_at)
VALUES ($1, $2, $3, $4, $5, statement_timestamp() + $6::bigint * interval '1 millisecond')
RETURNING expires_at AS "expires_at?: _"
