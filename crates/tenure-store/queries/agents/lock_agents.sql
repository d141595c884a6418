-- Reads the present declarations of the agents that are being applied, and keeps others from changing them until the
-- transaction ends. In order, so that two who apply do not deadlock. Index: the primary key.
SELECT a.agent, a.digest, a.bundle
FROM agents AS a
WHERE a.tenant = $1 AND a.agent = ANY ($2)
ORDER BY a.agent
FOR UPDATE
