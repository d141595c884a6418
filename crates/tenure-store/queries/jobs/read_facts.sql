-- Reads what is known of some jobs, all in one snapshot. Reads only: whoever decides from it writes at the head that it
-- names, or not at all; on another timeline than was noted no generation is the present one. Of the effects that mutate: those in doubt ($4 of them,
-- those first that only a person can decide, and how many in all, and how many of them no run that undoes could settle; an attempt in doubt is
-- the last under its key, because no other may follow it), how many of them only a person can decide, how many were found
-- not to have happened and not announced again, and those that took
-- effect and are to be undone where the job is unwound, the last to land first: what was done before the last pivot stays,
-- and so does what was undone, whose undoing took effect under a key of its own. What somebody found out about later took effect
-- when it was announced, for all that is known, and not when it was found out. Of a job that is set aside, the record that
-- says so stands before the one that concluded it, beside which its result is kept. Indexes: the primary keys behind
-- `job_facts` and that of `effects`, job by job (LIMIT 1 keeps the planner from another order).
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
    s.runs AS "runs!",
    s.run_cap AS "run_cap!",
    s.spent_micros AS "spent_micros!",
    s.budget_micros AS "budget_micros!",
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
    l.abandon_seq AS "abandon_seq?",
    l.abandoned_at AS "abandoned_at?: _",
    l.refused AS "refused?",
    l.steer_seq AS "steer_seq?",
    l.steered_at AS "steered_at?: _",
    f.not_before AS "not_before?: _",
    w.submitted_by,
    -- One that this release does not know matches everything, and cannot be read: nothing goes on past it.
    (
        SELECT jsonb_agg(jsonb_build_object('id', h.halt, 'scope', h.scope, 'name', h.name, 'why', h.why))
        FROM halts AS h
        WHERE h.lifted_at IS NULL
            AND halt_matches(h.scope, h.tenant, h.name, f.tenant, f.agent, f.declaration, w.submitted_by)
    ) AS "halts?",
    f.interruption_bytes AS "interruption_bytes?",
    f.unwinding,
    q.bytes AS "quarantine_bytes?",
    q.result AS "kept_result?",
    q.result_salt AS "kept_salt?",
    q.concluded AS "kept_bytes?",
    (
        SELECT r.bundle FROM jobs AS r
        WHERE r.tenant = f.tenant AND r.job = f.job AND (
            SELECT b.digest FROM bundles AS b WHERE b.tenant = r.tenant AND b.digest = r.bundle
        ) IS NULL
    ) AS "unheld_bundle?",
    v.seq AS "wait_seq?",
    v.name AS "wait_name?",
    v.until AS "wait_until?: _",
    v.jobs AS "wait_jobs?",
    v.left_open AS "wait_left?",
    (SELECT r.kind FROM journal AS r WHERE r.tenant = f.tenant AND r.job = f.job AND r.seq = 2)
        IS NOT DISTINCT FROM 'plan_frozen' AS "plan_frozen!",
    e.effects AS "effects?",
    (SELECT i.generation FROM installation AS i WHERE i.timeline = present_timeline()) AS "generation?",
    statement_timestamp() AS "now!: _"
FROM unnest($1::bigint[], $2::text[], $3::uuid[]) AS a (no, tenant, job)
CROSS JOIN LATERAL (
    SELECT
        f.tenant, f.job, f.session, f.agent, f.declaration, f.state, f.state_since, f.reason, f.detail, f.run,
        f.attempts, f.losses, f.hops_left, f.priority, f.labels, f.recovery, f.submitted_at, f.cancel_seq,
        f.concluded_seq, f.concluded_hash, f.started_at, f.deadline_at, f.head_seq, f.head_hash, f.head_epoch,
        f.head_at, f.head_kind, f.lease_epoch, f.lease_run_epoch, f.lease_worker, f.lease_term, f.lease_granted_at,
        f.lease_released_at, f.lease_term_closed, f.lease_fencing, f.not_before, f.interruption_bytes,
        f.unwinding
    FROM job_facts AS f
    WHERE f.tenant = a.tenant AND f.job = a.job
    LIMIT 1
) AS f
CROSS JOIN LATERAL (
    SELECT r.submitted_by FROM jobs AS r WHERE r.tenant = a.tenant AND r.job = a.job LIMIT 1
) AS w
CROSS JOIN LATERAL (
    SELECT r.runs, r.run_cap, r.spent_micros, r.budget_micros
    FROM sessions AS r
    WHERE r.tenant = f.tenant AND r.session = f.session
    LIMIT 1
) AS s
LEFT JOIN LATERAL (
    SELECT r.abandon_seq, r.abandoned_at, r.steer_seq, r.steered_at, r.refused
    FROM leases AS r
    WHERE r.tenant = a.tenant AND r.job = a.job
    LIMIT 1
) AS l ON true
LEFT JOIN LATERAL (
    SELECT
        d.bytes, r.value AS result, r.salt AS result_salt,
        -- It may lie in the blob store, or be erased: the record says which.
        CASE WHEN r.value IS NULL THEN r.bytes END AS concluded
    FROM journal AS r
    JOIN journal AS d ON d.tenant = r.tenant AND d.job = r.job AND d.seq = r.seq - 1
    WHERE f.state = 'quarantined' AND r.tenant = a.tenant AND r.job = a.job AND r.seq = f.concluded_seq
    LIMIT 1
) AS q ON true
-- What it waits for, where it is suspended.
LEFT JOIN LATERAL (
    SELECT
        r.seq, r.name, r.until, r.jobs,
        (
            SELECT count(o.awaited) FROM awaited AS o
            WHERE o.tenant = r.tenant AND o.job = r.job AND coalesce(o.outcome, '') = ''
        ) AS left_open
    FROM waits AS r
    WHERE f.state = 'suspended' AND r.tenant = a.tenant AND r.job = a.job
    LIMIT 1
) AS v ON true
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN count(m.key) > 0 THEN jsonb_build_object(
            'doubts', coalesce(jsonb_agg(jsonb_build_object(
                'key', m.key, 'attempt', m.attempt, 'state', m.state, 'disposition', m.disposition,
                'recovery', m.recovery, 'mutates', m.mutates, 'request', encode(m.request, 'hex'), 'run', m.run,
                'announced_seq', m.announced_seq, 'announced_at', (
                    SELECT r.at FROM journal AS r
                    WHERE r.tenant = m.tenant AND r.job = m.job AND r.seq = m.announced_seq
                )
            ) ORDER BY m.place) FILTER (WHERE m.in_doubt AND m.place <= $4), '[]'),
            'in_doubt', count(m.key) FILTER (WHERE m.in_doubt),
            'undecided', count(m.key) FILTER (WHERE m.in_doubt AND m.undecided),
            'bar_undoing', count(m.key) FILTER (WHERE m.in_doubt AND (
                m.undecided OR CASE WHEN m.undoes THEN f.unwinding IS NULL ELSE m.recovery <> 'probe' END
            )),
            'denied', count(m.key) FILTER (WHERE m.denied),
            'steps', coalesce(jsonb_agg(jsonb_build_object('key', m.key, 'attempt', m.attempt) ORDER BY m.took_seq DESC)
                FILTER (WHERE m.to_undo AND m.place <= $4), '[]'),
            'to_undo', count(m.key) FILTER (WHERE m.to_undo),
            'undeclared_steps', coalesce(jsonb_agg(jsonb_build_object('key', m.key, 'attempt', m.attempt)
                ORDER BY m.took_seq DESC) FILTER (WHERE m.to_undo AND m.undeclared AND m.undeclared_place <= $4), '[]'),
            'undeclared', count(m.key) FILTER (WHERE m.to_undo AND m.undeclared),
            'landed', count(m.key) FILTER (WHERE m.landed AND NOT m.compensated AND NOT m.undoes),
            'compensated', count(m.key) FILTER (WHERE m.compensated)
        ) END AS effects
    FROM (
        SELECT
            n.tenant, n.job, n.key, n.attempt, n.state, n.disposition, n.recovery, n.mutates, n.request, n.run,
            n.announced_seq, n.took_seq, n.in_doubt, n.undecided, n.denied, n.to_undo, n.undeclared, n.landed, n.undoes,
            n.compensated,
            row_number() OVER (
                PARTITION BY n.in_doubt, n.to_undo
                ORDER BY n.undecided DESC, CASE WHEN n.to_undo THEN n.took_seq END DESC, n.key
            ) AS place,
            row_number() OVER (PARTITION BY n.to_undo, n.undeclared ORDER BY n.took_seq DESC) AS undeclared_place
        FROM (
            SELECT
                o.tenant, o.job, o.key, o.attempt, o.state, o.disposition, o.recovery, o.mutates, o.request, o.run,
                o.announced_seq, o.took_seq, o.in_doubt, o.undecided, o.denied, o.landed, o.undoes, o.compensated,
                o.compensation = 'undeclared' AS undeclared,
                o.landed AND NOT o.compensated AND o.compensation IN ('undeclared', 'undo')
                    AND o.took_seq > coalesce(max(o.took_seq) FILTER (
                        WHERE o.landed AND o.compensation = 'pivot'
                    ) OVER (), 0) AS to_undo
            FROM (
                SELECT
                    e.tenant, e.job, e.key, e.attempt, e.state, e.disposition, e.recovery, e.mutates, e.request, e.run,
                    e.announced_seq, e.compensation,
                    CASE e.state WHEN 'reconciled' THEN e.announced_seq ELSE e.outcome_seq END AS took_seq,
                    e.state = 'started' OR e.disposition IS NOT DISTINCT FROM 'in_doubt' AS in_doubt,
                    CASE e.state
                        WHEN 'started' THEN e.recovery = 'ask'
                        WHEN 'failed' THEN e.disposition = 'in_doubt' AND e.recovery <> 'probe'
                        ELSE e.disposition IS NOT DISTINCT FROM 'in_doubt'
                    END AS undecided,
                    e.state = 'reconciled' AND e.disposition = 'did_not_happen'
                        AND e.attempt = max(e.attempt) OVER (PARTITION BY e.key) AS denied,
                    e.state = 'done' OR e.disposition IS NOT DISTINCT FROM 'landed' AS landed,
                    starts_with(e.key, 'undo:') AS undoes,
                    e.compensation = 'undo' AND (e.state = 'done' OR e.disposition IS NOT DISTINCT FROM 'landed') AND (
                        SELECT count(u.attempt) FROM effects AS u
                        WHERE u.tenant = e.tenant AND u.job = e.job AND u.key = 'undo:' || e.key
                            AND (u.state = 'done' OR u.disposition = 'landed')
                    ) > 0 AS compensated
                FROM effects AS e
                WHERE e.tenant = a.tenant AND e.job = a.job AND e.mutates
            ) AS o
        ) AS n
    ) AS m
) AS e
