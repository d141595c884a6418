-- Lists the unreleased leases of a term that were granted a while ago and that its worker does not name. Reads only: the
-- worker is asked about them, and only then is anything released. Index: `leases_term`.
SELECT l.tenant, l.job, l.run_epoch, l.run, l.generation
FROM leases AS l
WHERE l.worker = $1 AND l.term = $2 AND l.released_at IS NULL
    AND l.granted_at <= statement_timestamp() - $3::bigint * interval '1 millisecond'
    AND (l.tenant, l.job, l.run_epoch) NOT IN (
        SELECT a.tenant, a.job, a.epoch
        FROM unnest($4::text[], $5::uuid[], $6::bigint[]) AS a (tenant, job, epoch)
    )
ORDER BY l.granted_at, l.tenant, l.job
LIMIT $7
