-- Tells apart why appends were not admitted: what stands where the writer thought it could write, and whether the job has had
-- as many attempts at effects as it may ($4), or its session spent what it may. Reads only; whoever races with it is answered in the next round. Indexes: those
-- of `job_facts`, by primary key, and that of `effects`.
SELECT
    a.no AS "no!",
    (SELECT i.generation FROM installation AS i WHERE i.timeline = present_timeline()) AS generation,
    f.state AS "state?",
    f.head_epoch AS "head_epoch?",
    f.lease_epoch AS "lease_epoch?",
    f.lease_worker AS "lease_worker?",
    f.lease_released_at IS NOT NULL AS "lease_released!",
    (
        SELECT count(l.attempt) FROM (
            SELECT e.attempt FROM effects AS e
            WHERE e.tenant = a.tenant AND e.job = a.job
            LIMIT $4
        ) AS l
    ) >= $4 AS "effects_full!",
    s.spent_micros AS "spent_micros?",
    s.budget_micros AS "budget_micros?"
FROM unnest($1::bigint[], $2::text[], $3::uuid[]) AS a (no, tenant, job)
LEFT JOIN LATERAL (
    SELECT
        f.session, f.state, f.head_epoch, f.lease_epoch, f.lease_worker, f.lease_released_at
    FROM job_facts AS f
    WHERE f.tenant = a.tenant AND f.job = a.job
    LIMIT 1
) AS f ON true
LEFT JOIN LATERAL (
    SELECT r.spent_micros, r.budget_micros FROM sessions AS r WHERE r.tenant = a.tenant AND r.session = f.session LIMIT 1
) AS s ON true
