-- Undoing what a job has done: why, and what the job becomes then. Absent while it works forward. A constant default of a
-- column that may be absent rewrites no partition.

ALTER TABLE jobs ADD COLUMN unwinding jsonb
    CONSTRAINT unwinding_says_why CHECK (unwinding ->> 'instead_of' IN ('cancelled', 'failed'));

-- As before, with that column at the end.
CREATE OR REPLACE VIEW job_facts AS
SELECT
    j.tenant,
    j.job,
    j.session,
    j.agent,
    j.declaration,
    j.state,
    j.state_since,
    j.reason,
    j.detail,
    j.run,
    j.attempts,
    j.losses,
    j.hops_left,
    j.priority,
    j.labels,
    j.recovery,
    j.traceparent,
    j.submitted_at,
    j.cancel_seq,
    j.concluded_seq,
    j.concluded_hash,
    s.started_at,
    s.deadline_at,
    h.seq AS head_seq,
    h.hash AS head_hash,
    h.epoch AS head_epoch,
    h.at AS head_at,
    h.kind AS head_kind,
    l.epoch AS lease_epoch,
    l.run_epoch AS lease_run_epoch,
    l.worker AS lease_worker,
    l.term AS lease_term,
    l.granted_at AS lease_granted_at,
    l.released_at AS lease_released_at,
    -- A term's row outlives its leases; where it is missing all the same, nothing is promised.
    l.job IS NOT NULL AND (t.worker IS NULL OR t.closed_at IS NOT NULL) AS lease_term_closed,
    coalesce(t.fencing, 'none') AS lease_fencing,
    q.not_before,
    i.bytes AS interruption_bytes,
    j.unwinding
FROM jobs AS j
CROSS JOIN LATERAL (
    SELECT r.started_at, r.deadline_at
    FROM sessions AS r
    WHERE r.tenant = j.tenant AND r.session = j.session
    LIMIT 1
) AS s
CROSS JOIN LATERAL (
    SELECT r.seq, r.hash, r.epoch, r.at, r.kind
    FROM journal AS r
    WHERE r.tenant = j.tenant AND r.job = j.job
    ORDER BY r.seq DESC
    LIMIT 1
) AS h
LEFT JOIN LATERAL (
    SELECT r.job, r.epoch, r.run_epoch, r.worker, r.term, r.granted_at, r.released_at
    FROM leases AS r
    WHERE r.tenant = j.tenant AND r.job = j.job
    LIMIT 1
) AS l ON true
LEFT JOIN LATERAL (
    SELECT r.worker, r.fencing, r.closed_at
    FROM terms AS r
    WHERE r.worker = l.worker AND r.term = l.term
    LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT r.not_before
    FROM ready AS r
    WHERE r.tenant = j.tenant AND r.job = j.job
    LIMIT 1
) AS q ON true
-- The last interruption, only where it is what the job stands at: then it is near the head.
LEFT JOIN LATERAL (
    SELECT r.bytes
    FROM journal AS r
    WHERE j.state = 'interrupted' AND r.tenant = j.tenant AND r.job = j.job AND r.kind = 'run_interrupted'
    ORDER BY r.seq DESC
    LIMIT 1
) AS i ON true;
