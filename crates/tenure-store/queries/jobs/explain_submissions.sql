-- Tells who has a submission's key, or that the job itself is there already. Reads only, after the statement that did not
-- admit it. Indexes: the primary keys of `submission_keys`, `jobs`, `sessions`.
SELECT
    a.no AS "no!",
    k.payload_digest AS "payload_digest?",
    j.job AS "job!",
    j.session AS "session!",
    s.deadline_at AS "deadline_at?: _"
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[]) AS a (no, tenant, job, key_hash)
LEFT JOIN submission_keys AS k ON k.tenant = a.tenant AND k.key_hash = a.key_hash
JOIN jobs AS j ON j.tenant = a.tenant AND j.job = coalesce(k.job, a.job)
JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
