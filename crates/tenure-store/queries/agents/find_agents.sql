-- Tells which of these agents the tenant has. Index: the primary key.
SELECT a.agent FROM agents AS a WHERE a.tenant = $1 AND a.agent = ANY ($2) ORDER BY a.agent
