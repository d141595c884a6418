-- Stores declarations under their digests. One that is there already has the same content, so it is left alone, and two
-- who store the same do not disturb each other; sorted, so that they do not deadlock. Index: the primary key.
INSERT INTO declarations (tenant, digest, document, applied_by)
SELECT DISTINCT ON (a.digest) $1, a.digest, a.document, $2
FROM unnest($3::bytea[], $4::bytea[]) AS a (digest, document)
ORDER BY a.digest
ON CONFLICT (tenant, digest) DO NOTHING
