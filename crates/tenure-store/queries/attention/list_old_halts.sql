-- Reads the halts of a tenant and of the fleet that have stood since before $2, the oldest first. Halts that stand are
-- bounded by their limit.
SELECT h.halt::text AS "subject!", h.thrown_at AS "since!: _"
FROM halts AS h
WHERE h.lifted_at IS NULL AND (h.tenant IS NULL OR h.tenant = $1) AND h.thrown_at <= $2
ORDER BY h.thrown_at, h.halt
LIMIT $3
