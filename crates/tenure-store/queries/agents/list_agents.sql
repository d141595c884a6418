-- Reads a page of a tenant's agents, by name. Index: the primary keys.
SELECT
    a.agent, a.digest, d.document, a.bundle, b.document AS "bundle_document?", a.applied_at AS "applied_at: _",
    a.applied_by, 0::bigint AS "spent_micros!"
FROM agents AS a
JOIN declarations AS d ON d.tenant = a.tenant AND d.digest = a.digest
LEFT JOIN bundles AS b ON b.tenant = a.tenant AND b.digest = a.bundle
WHERE a.tenant = $1 AND a.agent > $2
ORDER BY a.agent
LIMIT $3
