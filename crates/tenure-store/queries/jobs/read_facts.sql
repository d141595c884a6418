-- Reads what is known of some jobs, all in one snapshot. Reads only: whoever decides from it writes at the head that it
-- names, or not at all. Indexes: the primary keys behind `job_facts`, job
-- by job (LIMIT 1 keeps the planner from another order).
SELECT
    a.no AS "no!",
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
    f.not_before AS "not_before?: _",
    f.interruption_bytes AS "interruption_bytes?",
    (SELECT i.generation FROM installation AS i) AS "generation!",
    statement_timestamp() AS "now!: _"
FROM unnest($1::bigint[], $2::text[], $3::uuid[]) AS a (no, tenant, job)
CROSS JOIN LATERAL (
    SELECT
        f.tenant, f.job, f.session, f.agent, f.declaration, f.state, f.state_since, f.reason, f.detail, f.run,
        f.attempts, f.losses, f.hops_left, f.priority, f.labels, f.recovery, f.submitted_at, f.cancel_seq,
        f.concluded_seq, f.concluded_hash, f.started_at, f.deadline_at, f.head_seq, f.head_hash, f.head_epoch,
        f.head_at, f.head_kind, f.lease_epoch, f.lease_run_epoch, f.lease_worker, f.lease_term, f.lease_granted_at,
        f.lease_released_at, f.lease_term_closed, f.lease_fencing, f.not_before, f.interruption_bytes
    FROM job_facts AS f
    WHERE f.tenant = a.tenant AND f.job = a.job
    LIMIT 1
) AS f
