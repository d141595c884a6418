-- Reads how some jobs of a tenant stand, and the beginning ($4 bytes) of what each returned: the value beside the record that
-- concluded it, or that record, where nothing lies there. Nothing where there is no such job. Indexes: the primary keys of
-- `jobs` and `journal`, job by job.
SELECT
    a.no AS "no!",
    j.state AS "state!",
    j.reason,
    substring(c.value FROM 1 FOR $4::integer) AS "result?",
    octet_length(c.value)::bigint AS "result_bytes?",
    CASE WHEN c.value IS NULL THEN c.bytes END AS "concluded?"
FROM unnest($1::bigint[], $3::uuid[]) AS a (no, job)
CROSS JOIN LATERAL (
    SELECT r.state, r.reason, r.concluded_seq
    FROM jobs AS r
    WHERE r.tenant = $2 AND r.job = a.job
    LIMIT 1
) AS j
LEFT JOIN LATERAL (
    SELECT r.value, r.bytes
    FROM journal AS r
    WHERE j.state = 'succeeded' AND r.tenant = $2 AND r.job = a.job AND r.seq = j.concluded_seq
    LIMIT 1
) AS c ON true
