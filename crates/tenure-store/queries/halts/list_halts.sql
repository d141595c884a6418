-- Reads a page of halts, newest first: those of these tenants (`*` alone stands for all of them) and the fleet's, which
-- concern everybody; unless $2 says so, only those that stand. Index: the primary key, backwards.
SELECT
    h.halt, h.scope, h.tenant, h.name, h.why, h.thrown_by, h.thrown_at AS "thrown_at!: _", h.lifted_by, h.lift_why,
    h.lifted_at AS "lifted_at?: _"
FROM halts AS h
WHERE (h.tenant IS NULL OR $1::text[] = '{*}' OR h.tenant = ANY ($1))
    AND ($2::boolean OR h.lifted_at IS NULL)
    AND ($3::bigint IS NULL OR h.halt < $3)
ORDER BY h.halt DESC
LIMIT $4
