-- Makes declarations the present ones. A null bundle leaves an agent's bundle as it is. Two who apply the same agent do so
-- one after the other; the later stands. In order, so that they do not deadlock. An agent that does not change keeps when
-- and by whom it was applied. Index: the primary key.
INSERT INTO agents AS g (tenant, agent, digest, bundle, applied_by)
SELECT $1, a.agent, a.digest, $2::bytea, $3
FROM unnest($4::text[], $5::bytea[]) AS a (agent, digest)
CROSS JOIN installation AS i
WHERE i.timeline = present_timeline()
ORDER BY a.agent
ON CONFLICT (tenant, agent) DO UPDATE
SET
    digest = excluded.digest,
    bundle = coalesce(excluded.bundle, g.bundle),
    applied_at = statement_timestamp(),
    applied_by = excluded.applied_by
WHERE g.digest <> excluded.digest OR coalesce(excluded.bundle, g.bundle) IS DISTINCT FROM g.bundle
