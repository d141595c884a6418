-- Reads an agent's present declaration and its tenant's bundle. Index: the primary keys.
SELECT
    a.agent, a.digest, d.document, a.bundle, b.document AS "bundle_document?", a.applied_at AS "applied_at: _",
    a.applied_by
FROM agents AS a
JOIN declarations AS d ON d.tenant = a.tenant AND d.digest = a.digest
LEFT JOIN bundles AS b ON b.tenant = a.tenant AND b.digest = a.bundle
WHERE a.tenant = $1 AND a.agent = $2
