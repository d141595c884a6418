-- Locks claimable jobs for a worker, in the order of priority and queue, and reads what their claims need.
--
-- Races: a row that another claim holds is passed over (SKIP LOCKED), so two claims never wait for each other and never
-- pick the same job. The locks are held until the claim's statement, in the same transaction, has taken the positions. The
-- heads are of this statement's snapshot; the claim's statement checks them.
--
-- `*` alone among the tenants stands for all of them.
--
-- Index: `ready_queue`, once for each priority, from its floor on: entries that are dead and not yet vacuumed lie below
-- it, and would be scanned again and again. The subquery for each priority is LATERAL, and stops when enough are found. What belongs to
-- a job is looked up job by job: LIMIT 1 keeps the planner from joining in another order.
WITH picked AS MATERIALIZED (
    SELECT r.tenant, r.job, r.priority, r.queue_no, r.cause
    FROM unnest($1::smallint[], $2::bigint[]) AS f (priority, floor)
    CROSS JOIN LATERAL (
        SELECT q.tenant, q.job, q.priority, q.queue_no, q.cause
        FROM ready AS q
        WHERE q.not_before IS NULL
            AND q.priority = f.priority
            AND q.queue_no >= f.floor
            AND ($3::text[] = '{*}' OR q.tenant = ANY ($3))
            AND (cardinality($4::text[]) = 0 OR q.agent = ANY ($4))
            AND q.requires <@ $5::text[]
            -- Whoever holds handlers can run nothing else.
            AND (cardinality($8::text[]) = 0 OR q.requires && $8)
            -- What this release cannot read does not stand before the rest.
            AND q.queue_no <> ALL ($7::bigint[])
            -- What a halt stands against waits where it is. The row of the job is looked up only where one stands.
            AND (
                SELECT count(h.halt) FROM halts AS h
                WHERE h.lifted_at IS NULL AND halt_matches(
                    h.scope, h.tenant, h.name, q.tenant, q.agent,
                    (SELECT r.declaration FROM jobs AS r WHERE r.tenant = q.tenant AND r.job = q.job),
                    (SELECT r.submitted_by FROM jobs AS r WHERE r.tenant = q.tenant AND r.job = q.job)
                )
            ) = 0
        ORDER BY q.queue_no
        LIMIT $6
        FOR UPDATE SKIP LOCKED
    ) AS r
    LIMIT $6
)
SELECT
    p.tenant AS "tenant!",
    p.job AS "job!",
    p.priority AS "priority!",
    p.queue_no AS "queue_no!",
    p.cause AS "cause!",
    j.session AS "session!",
    j.agent AS "agent!",
    j.run AS "run!",
    j.declaration AS "declaration!",
    j.labels AS "labels!",
    j.traceparent,
    s.started_at AS "started_at!: _",
    s.deadline_at AS "deadline_at?: _",
    s.runs AS "runs!",
    s.run_cap AS "run_cap!",
    s.spent_micros AS "spent_micros!",
    s.budget_micros AS "budget_micros!",
    -- Undoing meets no deadline.
    j.unwinding IS NULL AND s.deadline_at <= statement_timestamp() AS "denied?",
    d.document AS "document?",
    j.bundle IS NULL OR (
        SELECT b.digest FROM bundles AS b WHERE b.tenant = p.tenant AND b.digest = j.bundle
    ) IS NOT NULL AS "bundle_held!",
    -- A job without it never started, and no run of it begins.
    (SELECT r.kind FROM journal AS r WHERE r.tenant = p.tenant AND r.job = p.job AND r.seq = 2)
        IS NOT DISTINCT FROM 'plan_frozen' AS "plan_frozen!",
    i.value AS input,
    i.admitted AS "admitted?",
    h.seq AS "head_seq!",
    h.hash AS "head_hash!",
    h.epoch AS "head_epoch!",
    h.at AS "head_at!: _",
    statement_timestamp() AS "now!: _"
FROM picked AS p
CROSS JOIN LATERAL (
    SELECT r.session, r.agent, r.run, r.declaration, r.bundle, r.labels, r.traceparent, r.unwinding
    FROM jobs AS r
    WHERE r.tenant = p.tenant AND r.job = p.job
    LIMIT 1
) AS j
CROSS JOIN LATERAL (
    SELECT r.started_at, r.deadline_at, r.runs, r.run_cap, r.spent_micros, r.budget_micros
    FROM sessions AS r
    WHERE r.tenant = p.tenant AND r.session = j.session
    LIMIT 1
) AS s
LEFT JOIN LATERAL (
    SELECT r.document FROM declarations AS r WHERE r.tenant = p.tenant AND r.digest = j.declaration LIMIT 1
) AS d ON true
-- The input lies beside the first record, or where that says.
LEFT JOIN LATERAL (
    SELECT r.value, CASE WHEN r.value IS NULL THEN r.bytes END AS admitted
    FROM journal AS r
    WHERE r.tenant = p.tenant AND r.job = p.job AND r.seq = 1
    LIMIT 1
) AS i ON true
CROSS JOIN LATERAL (
    SELECT r.seq, r.hash, r.epoch, r.at
    FROM journal AS r
    WHERE r.tenant = p.tenant AND r.job = p.job
    ORDER BY r.seq DESC
    LIMIT 1
) AS h
