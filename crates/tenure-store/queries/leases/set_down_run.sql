-- Leaves a run as a crash leaves it: its lease is given up, its child counts as gone, and the job waits in the queue, so that
-- whoever claims it next does so one epoch higher. No record says so, and therefore no fleet does this: there a run ends by
-- a record at a position. It is for histories that are rebuilt in a database of their own, where nobody else writes.
--
-- Races: the row of the lease is what is fenced here. It is locked by being deleted, and deleted only where the epoch is
-- the caller's; all else waits for what that returned.
--
-- Indexes: the primary keys of `leases` and `jobs`.
WITH given_up AS MATERIALIZED (
    DELETE FROM leases AS l
    WHERE l.tenant = $1 AND l.job = $2 AND l.epoch = $3 AND l.released_at IS NULL
    RETURNING l.tenant, l.job
),
readied AS MATERIALIZED (
    UPDATE jobs AS j
    SET state = 'ready', state_since = statement_timestamp(), reason = NULL, detail = NULL
    FROM given_up AS g
    WHERE j.tenant = g.tenant AND j.job = g.job
    RETURNING j.tenant, j.job, j.agent, j.priority, j.requires
)
INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause)
SELECT r.tenant, r.job, r.agent, r.priority, nextval('queue_numbers'), r.requires, $4
FROM readied AS r
