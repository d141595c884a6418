-- Reads an agent's present declaration and its tenant's bundle, and what the tenant has spent in 24 hours, whole minutes of it. Index: the
-- primary keys.
SELECT
    a.agent, a.digest, d.document, a.bundle, b.document AS "bundle_document?", a.applied_at AS "applied_at: _",
    a.applied_by,
    (
        SELECT least(coalesce(sum(p.micros), 0), 9223372036854775807)::bigint
        FROM spending AS p
        WHERE p.tenant = a.tenant AND p.minute > statement_timestamp() - interval '24 hours 1 minute'
    ) AS "spent_micros!"
FROM agents AS a
JOIN declarations AS d ON d.tenant = a.tenant AND d.digest = a.digest
LEFT JOIN bundles AS b ON b.tenant = a.tenant AND b.digest = a.bundle
WHERE a.tenant = $1 AND a.agent = $2
