-- Reads the halt that stands for this scope, thrown by this person for this reason. Index: `halts_standing`.
SELECT
    h.halt, h.scope, h.tenant, h.name, h.why, h.thrown_by, h.thrown_at AS "thrown_at!: _", h.lifted_by, h.lift_why,
    h.lifted_at AS "lifted_at?: _"
FROM halts AS h
WHERE h.lifted_at IS NULL
    AND h.scope = $1
    AND coalesce(h.tenant, '') = coalesce($2, '')
    AND coalesce(h.name, '') = coalesce($3, '')
    AND h.thrown_by ->> 'actor' = $5::jsonb ->> 'actor'
    AND md5(h.why) = md5($4)
    AND h.why = $4
