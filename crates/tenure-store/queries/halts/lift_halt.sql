-- Lifts a halt that stands, within these tenants; `*` alone stands for all of them and for the fleet. Of two that lift it at
-- once one does. Index: the primary key.
UPDATE halts AS h
SET lifted_by = $3, lift_why = $4, lifted_at = statement_timestamp()
WHERE h.halt = $1
    AND h.lifted_at IS NULL
    AND ($2::text[] = '{*}' OR h.tenant = ANY ($2))
    AND (SELECT i.timeline FROM installation AS i) = present_timeline()
RETURNING
    h.halt, h.scope, h.tenant, h.name, h.why, h.thrown_by, h.thrown_at AS "thrown_at!: _", h.lifted_by, h.lift_why,
    h.lifted_at AS "lifted_at?: _"
