-- Writes chunks of output. The same chunk may come twice, from a worker that did not get the answer: the first stands. A
-- chunk of a run that never was is left out. Outside the chain, so no position is taken and no epoch is compared: output of
-- a run that is over may still arrive. Sorted, so that two batches do not deadlock. Index: the primary keys.
INSERT INTO output (tenant, job, run, chunk, stream, bytes)
SELECT a.tenant, a.job, a.run, a.chunk, a.stream, a.bytes
FROM unnest($1::text[], $2::uuid[], $3::integer[], $4::bigint[], $5::text[], $6::bytea[])
    AS a (tenant, job, run, chunk, stream, bytes)
WHERE a.run BETWEEN 1 AND (SELECT j.run FROM jobs AS j WHERE j.tenant = a.tenant AND j.job = a.job)
    AND (SELECT i.timeline FROM installation AS i) = present_timeline()
ORDER BY a.tenant, a.job, a.run, a.chunk
ON CONFLICT (tenant, job, run, chunk) DO NOTHING
