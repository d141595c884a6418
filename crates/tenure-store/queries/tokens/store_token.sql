-- Stores what is kept of a new token, where there are fewer than $7 that are neither revoked nor expired: beyond them
-- coordinators read none of the table. Its id is random: of two with the same the second is refused by the primary key. Its
-- end is counted from the time of this statement. Two that are stored at the same moment do not count each other; whoever
-- reads has the last word. Reads the whole table.
INSERT INTO tokens (token, hash, tenants, actor, scopes, expires_at)
SELECT $1, $2, $3, $4, $5, statement_timestamp() + $6::bigint * interval '1 millisecond'
WHERE (
    SELECT count(*) FROM tokens AS t
    WHERE t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > statement_timestamp())
) < $7
RETURNING expires_at AS "expires_at?: _"
