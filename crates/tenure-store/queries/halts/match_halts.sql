-- Reads which halts stand against some submissions. A handful of halts stands, if any, so they are looked through.
SELECT a.no AS "no!", h.halt, h.scope, h.name, h.why
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::text[])
    AS a (no, tenant, agent, declaration, submitted_by)
JOIN halts AS h
    ON h.lifted_at IS NULL
    AND halt_matches(h.scope, h.tenant, h.name, a.tenant, a.agent, a.declaration, a.submitted_by)
