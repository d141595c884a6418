-- Reads a page of a tenant's jobs, newest first. Ids rise with time, so the primary key of `jobs` read backwards is the
-- order, and the last id of a page is the cursor: a job that is added meanwhile is newer than every page but the first.
-- Filters are applied while reading; with a rare one, more rows are read than returned.
SELECT
    0::bigint AS "no!",
    f.tenant AS "tenant!",
    f.job AS "job!",
    f.session AS "session!",
    f.agent AS "agent!",
    f.declaration AS "declaration!",
    f.state AS "state!",
    f.state_since AS "state_since!: _",
    f.reason,
    f.detail,
    f.run AS "run!",
    f.attempts AS "attempts!",
    f.losses AS "losses!",
    f.hops_left AS "hops_left!",
    -- A listing does not look at what the session has used.
    0 AS "runs!",
    0 AS "run_cap!",
    0::bigint AS "spent_micros!",
    0::bigint AS "budget_micros!",
    f.priority AS "priority!",
    f.labels AS "labels!",
    f.recovery AS "recovery!",
    f.submitted_at AS "submitted_at!: _",
    f.cancel_seq,
    f.concluded_seq,
    f.concluded_hash,
    f.started_at AS "started_at!: _",
    f.deadline_at AS "deadline_at?: _",
    f.head_seq AS "head_seq!",
    f.head_hash AS "head_hash!",
    f.head_epoch AS "head_epoch!",
    f.head_at AS "head_at!: _",
    f.head_kind AS "head_kind!",
    f.lease_epoch AS "lease_epoch?",
    f.lease_run_epoch AS "lease_run_epoch?",
    f.lease_worker AS "lease_worker?",
    f.lease_term AS "lease_term?",
    f.lease_granted_at AS "lease_granted_at?: _",
    f.lease_released_at IS NOT NULL AS "lease_released!",
    f.lease_term_closed AS "lease_term_closed!",
    f.lease_fencing AS "lease_fencing!",
    NULL::bigint AS "abandon_seq?",
    NULL::timestamptz AS "abandoned_at?: _",
    NULL::jsonb AS "refused?",
    NULL::bigint AS "steer_seq?",
    NULL::timestamptz AS "steered_at?: _",
    f.not_before AS "not_before?: _",
    NULL::text AS submitted_by,
    NULL::jsonb AS "halts?",
    f.interruption_bytes AS "interruption_bytes?",
    f.unwinding,
    NULL::bytea AS "quarantine_bytes?",
    NULL::bytea AS "kept_result?",
    NULL::bytea AS "kept_salt?",
    NULL::bytea AS "kept_bytes?",
    NULL::bytea AS "unheld_bundle?",
    NULL::bigint AS "wait_seq?",
    NULL::text AS "wait_name?",
    NULL::timestamptz AS "wait_until?: _",
    NULL::integer AS "wait_jobs?",
    NULL::bigint AS "wait_left?",
    true AS "plan_frozen!",
    NULL::jsonb AS "effects?",
    NULL::bigint AS "generation?",
    statement_timestamp() AS "now!: _"
FROM job_facts AS f
WHERE f.tenant = $1
    AND ($2::uuid IS NULL OR f.job < $2)
    AND (cardinality($3::text[]) = 0 OR f.state = ANY ($3))
    AND ($4::text IS NULL OR f.agent = $4)
    AND ($5::timestamptz IS NULL OR f.submitted_at >= $5)
    AND f.labels @> $6::jsonb
ORDER BY f.job DESC
LIMIT $7
