-- Stores a policy bundle under its digest. One that is there already has the same content. Index: the primary key.
INSERT INTO bundles (tenant, digest, document, applied_by)
VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, digest) DO NOTHING
