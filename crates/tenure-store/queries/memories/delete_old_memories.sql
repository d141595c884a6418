-- Deletes what agents remembered long ago: of each agent all but the latest $1. Two coordinators may do the same at once. Reads the
-- whole table, which has as many rows as agents have lines.
DELETE FROM memories AS m
USING (
    SELECT o.tenant, o.agent, o.no, row_number() OVER (PARTITION BY o.tenant, o.agent ORDER BY o.no DESC) AS place
    FROM memories AS o
) AS p
WHERE p.place > $1 AND m.tenant = p.tenant AND m.agent = p.agent AND m.no = p.no
