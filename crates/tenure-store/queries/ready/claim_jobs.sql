-- Claims jobs whose ready rows this transaction has locked: writes `run_started` at the next position, which *is* the
-- claim, and with it the lease, the job's row and the end of its row in the queue.
--
-- The guard: the term is open, has not lapsed by this statement's time, and the attach is the current one; the timeline and
-- generation are the present ones; the job is ready and its head is the one that was read. None of it is a lock: a claim
-- may commit just after its term was closed. Its worker refuses it, and the sweep finds it, because it reads every
-- unreleased lease under a closed term. A writer who did not see the claim cannot append after it: the position is taken.
--
-- The run cap is exact: the session's row is locked, its runs are counted and the surplus of the batch is refused in this one
-- statement, so that of any number of claims each sees what the one before has left. Sessions are locked before positions
-- are taken, in order, as by everything that locks both. What draws on nothing (undoing) locks and counts nothing.
--
-- Indexes: the primary keys.
WITH present AS MATERIALIZED (
    SELECT i.generation FROM installation AS i WHERE i.timeline = present_timeline()
),
holder AS MATERIALIZED (
    SELECT t.worker, t.term, t.attach
    FROM terms AS t
    WHERE t.worker = $1 AND t.term = $2 AND t.attach = $3
        AND t.closed_at IS NULL AND t.expires_at > statement_timestamp()
),
sound AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.seq, a.epoch, a.run, a.at, a.bytes, a.hash, a.secret_hash, a.session, a.counts,
        a.checks_money, o.worker, o.term, o.attach
    FROM unnest(
        $5::bigint[], $6::text[], $7::uuid[], $8::bigint[], $9::bytea[], $10::bigint[], $11::integer[],
        $12::timestamptz[], $13::bytea[], $14::bytea[], $15::bytea[], $16::uuid[], $17::boolean[], $18::boolean[]
    ) AS a (
        no, tenant, job, seq, head_hash, epoch, run, at, bytes, hash, secret_hash, session, counts, checks_money
    )
    CROSS JOIN holder AS o
    WHERE (SELECT p.generation FROM present AS p) = $4
        AND (SELECT j.state FROM jobs AS j WHERE j.tenant = a.tenant AND j.job = a.job) = 'ready'
        AND (
            SELECT h.hash FROM journal AS h
            WHERE h.tenant = a.tenant AND h.job = a.job AND h.seq = a.seq - 1 AND h.epoch < a.epoch
        ) = a.head_hash
        AND (
            SELECT h.seq FROM journal AS h WHERE h.tenant = a.tenant AND h.job = a.job AND h.seq = a.seq
        ) IS NULL
),
-- The sessions whose limits these runs meet: locked, and so read as the last commit left them.
balances AS MATERIALIZED (
    SELECT c.tenant, c.session, s.runs_left, s.has_money
    FROM (
        SELECT DISTINCT n.tenant, n.session FROM sound AS n WHERE n.counts OR n.checks_money ORDER BY n.tenant, n.session
    ) AS c
    CROSS JOIN LATERAL (
        SELECT r.run_cap - r.runs AS runs_left, r.spent_micros < r.budget_micros AS has_money
        FROM sessions AS r
        WHERE r.tenant = c.tenant AND r.session = c.session
        LIMIT 1
        FOR NO KEY UPDATE
    ) AS s
),
-- Of several runs of one session the first are let in, as many as it has left.
ranked AS MATERIALIZED (
    SELECT
        n.no, b.has_money, b.runs_left,
        count(n.no) FILTER (WHERE n.counts AND (b.has_money OR NOT n.checks_money)) OVER (
            PARTITION BY n.tenant, n.session ORDER BY n.no
        ) AS place
    FROM sound AS n
    JOIN balances AS b ON b.tenant = n.tenant AND b.session = n.session
),
admitted AS MATERIALIZED (
    SELECT
        n.no, n.tenant, n.job, n.seq, n.epoch, n.run, n.at, n.bytes, n.hash, n.secret_hash, n.session, n.counts,
        n.worker, n.term, n.attach
    FROM sound AS n
    LEFT JOIN ranked AS k ON k.no = n.no
    WHERE (NOT n.checks_money OR k.has_money) AND (NOT n.counts OR k.place <= k.runs_left)
),
written AS (
    INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash)
    SELECT a.tenant, a.job, a.seq, $4, a.epoch, a.run, 'run_started', a.at, a.bytes, a.hash
    FROM admitted AS a
    ORDER BY a.tenant, a.job
    RETURNING seq
),
-- The positions are ours: of what was admitted all were inserted, or the statement failed. Counting what the insert
-- returned makes everything below wait for it.
taken AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.epoch, a.run, a.secret_hash, a.session, a.counts, a.worker, a.term, a.attach
    FROM admitted AS a
    WHERE (SELECT count(w.seq) FROM written AS w) > 0
),
leased AS (
    INSERT INTO leases (tenant, job, epoch, run_epoch, run, generation, worker, term, attach, secret_hash)
    SELECT t.tenant, t.job, t.epoch, t.epoch, t.run, $4, t.worker, t.term, t.attach, t.secret_hash
    FROM taken AS t
),
dequeued AS (
    DELETE FROM ready AS r
    USING taken AS t
    WHERE r.tenant = t.tenant AND r.job = t.job
),
counted AS (
    UPDATE sessions AS s
    SET runs = s.runs + c.runs
    FROM (
        SELECT t.tenant, t.session, count(t.no)::integer AS runs
        FROM taken AS t
        WHERE t.counts
        GROUP BY t.tenant, t.session
    ) AS c
    WHERE s.tenant = c.tenant AND s.session = c.session
),
started AS (
    UPDATE jobs AS j
    SET state = 'running', state_since = statement_timestamp(), run = t.run, reason = NULL, detail = NULL
    FROM taken AS t
    WHERE j.tenant = t.tenant AND j.job = t.job
)
SELECT t.no AS "no!", true AS "claimed!" FROM taken AS t
UNION ALL
-- What a limit of its session refused.
SELECT n.no, false FROM sound AS n WHERE (n.no IN (SELECT a.no FROM admitted AS a)) IS NOT TRUE
