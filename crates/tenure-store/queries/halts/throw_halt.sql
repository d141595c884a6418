-- Throws a halt, unless as many stand as may ($6), or the very same does.
--
-- Races: of two that are thrown alike the second waits for the first at the index, and is left out; its caller reads which
-- one stands. Nothing is locked that a job's write needs. Index: `halts_standing`.
INSERT INTO halts (scope, tenant, name, why, thrown_by)
SELECT $1, $2, $3, $4, $5
WHERE (SELECT i.timeline FROM installation AS i) = present_timeline()
    AND (SELECT count(h.halt) FROM halts AS h WHERE h.lifted_at IS NULL) < $6
ON CONFLICT (scope, coalesce(tenant, ''), coalesce(name, ''), (thrown_by ->> 'actor'), md5(why))
    WHERE lifted_at IS NULL DO NOTHING
RETURNING
    halt, scope, tenant, name, why, thrown_by, thrown_at AS "thrown_at!: _", lifted_by, lift_why,
    lifted_at AS "lifted_at?: _"
