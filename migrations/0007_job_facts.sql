-- What is known of a job, in one place: its row, its session, the end of its journal, its lease and the term that holds
-- it. Everything that reads a whole job reads this. The lateral parts are looked up by key for each job that is returned.

CREATE VIEW job_facts AS
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
    i.bytes AS interruption_bytes
FROM jobs AS j
JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
CROSS JOIN LATERAL (
    SELECT r.seq, r.hash, r.epoch, r.at, r.kind
    FROM journal AS r
    WHERE r.tenant = j.tenant AND r.job = j.job
    ORDER BY r.seq DESC
    LIMIT 1
) AS h
LEFT JOIN leases AS l ON l.tenant = j.tenant AND l.job = j.job
LEFT JOIN terms AS t ON t.worker = l.worker AND t.term = l.term
LEFT JOIN ready AS q ON q.tenant = j.tenant AND q.job = j.job
-- The last interruption, only where it is what the job stands at: then it is near the head.
LEFT JOIN LATERAL (
    SELECT r.bytes
    FROM journal AS r
    WHERE j.state = 'interrupted' AND r.tenant = j.tenant AND r.job = j.job AND r.kind = 'run_interrupted'
    ORDER BY r.seq DESC
    LIMIT 1
) AS i ON true;
