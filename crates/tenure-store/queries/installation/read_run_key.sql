-- Reads the key by which coordinators know the secrets of runs as their own. One row; no index.
SELECT i.run_key FROM installation AS i
