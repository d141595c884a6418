-- Reads declarations by their digests. Index: the primary key.
SELECT a.no AS "no!", d.document
FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS a (no, tenant, digest)
JOIN declarations AS d ON d.tenant = a.tenant AND d.digest = a.digest
