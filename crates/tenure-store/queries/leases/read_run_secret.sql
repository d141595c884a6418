-- Reads the hashed secret of a run, while it is unsettled or unaccounted for: after that its lease is gone, or another's.
-- Index: the primary key.
SELECT l.secret_hash, l.generation, l.worker, l.released_at IS NULL AS "live!"
FROM leases AS l
WHERE l.tenant = $1 AND l.job = $2 AND l.run_epoch = $3
