-- Lists the months that have partitions, of every partitioned table. Reads the catalogue.
SELECT c.relname AS "partition!"
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_class AS p ON p.oid = i.inhparent
JOIN pg_namespace AS n ON n.oid = p.relnamespace
WHERE p.relname = ANY ($1) AND n.nspname = current_schema()
