-- Writes a batch of appends, and with each everything that follows from it in the derived rows.
--
-- The first columns describe one job's append each ($1 … $23), the next its records ($24 … $37), the last what those say
-- about effects ($38 … $53, and $54 how many a job may have); $55 … $63 belong to the first. $64 … $67 are the
-- waits of jobs that become suspended, $90 … $93 the bookings that take effect with a success, and $68 … $89 with $94 … $99 are the jobs that a record gives work to (the last of these where it is a delivery to a join), whose own first records stand among
-- the others under the giver's number. All name it by its number. An append is admitted where the timeline and the writer's
-- generation are the present ones, the guard on the lease holds, the head that the writer remembers exists with its hash,
-- the next position is free, and what stands of each effect admits what is said about it ($46):
--   0 a first announcement: nothing stands under the key        1 a further one: the attempt before did not happen
--   2 an outcome: the attempt is open                           3 a verdict: it is open, or in doubt
--   4 an announcement beside the verdict on the attempt before  5 a failure in doubt: as 2, and no later run performs it again
-- The primary key of `effects` stands behind that: a second announcement that came this far fails the statement. A gift is
-- admitted where none stands under its key, no halt against it, and no delivery under its number; the primary key of `sends` stands behind that.
--
-- Races: whoever else writes to the same job takes the next position too, and the primary key of `journal` settles it: the
-- loser waits for the winner's commit and fails as a whole with a unique violation. So the guard may be judged by this
-- statement's snapshot: whatever would make it untrue takes a position. Everything derived waits for
-- what the insert returned. Locks are taken in one order (ready rows to be deleted or changed, sessions whose balance changes, positions, then rows that
-- nobody else may touch while the position is ours), each sorted, so that batches do not deadlock. Whatever is written
-- about an effect has a position of its job, so what stands of it may be judged by the snapshot too.
--
-- Indexes: the primary keys of `leases`, `journal`, `jobs`, `sessions`, `ready`, `effects`, `waits`, `sends`, `deliveries`; `once_in_a_job` of `memories`. The look-ups are scalar subqueries, not joins, so that
-- no plan reads a table whole.
WITH present AS MATERIALIZED (
    SELECT i.generation FROM installation AS i WHERE i.timeline = present_timeline()
),
asked AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.generation, a.guard, a.guard_epoch, a.head_seq, a.head_hash, a.last_epoch,
        a.lease_change, a.ready_change, a.cause, a.not_before, a.changes_job, a.state, a.reason, a.detail, a.attempts,
        a.losses, a.hops_left, a.cancel_seq, a.concluded_seq, a.concluded_hash, a.unwinding, a.declaration, a.requires,
        a.bundle, a.runs_back, a.spent_micros, a.spent_tokens, a.spent_turns, a.limit_change
    FROM unnest(
        $1::bigint[], $2::text[], $3::uuid[], $4::bigint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bytea[],
        $9::bigint[], $10::smallint[], $11::smallint[], $12::jsonb[], $13::timestamptz[], $14::boolean[],
        $15::text[], $16::text[], $17::text[], $18::integer[], $19::integer[], $20::integer[], $21::bigint[],
        $22::bigint[], $23::bytea[], $55::jsonb[], $56::bytea[], $57::jsonb[], $58::bytea[],
        $59::integer[], $60::bigint[], $61::bigint[], $62::bigint[], $63::jsonb[]
    ) AS a (
        no, tenant, job, generation, guard, guard_epoch, head_seq, head_hash, last_epoch, lease_change, ready_change,
        cause, not_before, changes_job, state, reason, detail, attempts, losses, hops_left, cancel_seq,
        concluded_seq, concluded_hash, unwinding, declaration, requires, bundle, runs_back, spent_micros, spent_tokens,
        spent_turns, limit_change
    )
),
-- A claim locks ready rows before it takes positions; so does this, or the two could wait for each other.
unqueued AS MATERIALIZED (
    SELECT r.tenant, r.job
    FROM ready AS r
    JOIN asked AS a ON a.tenant = r.tenant AND a.job = r.job
    WHERE a.ready_change IN (2, 3, 4)
    ORDER BY r.tenant, r.job
    FOR UPDATE OF r
),
said AS MATERIALIZED (
    SELECT
        m.no, m.tenant, m.job, m.seq, m.epoch, m.run, m.key, m.attempt, m.need, m.state, m.disposition, m.recovery,
        m.mutates, m.tool, m.compensation, m.request
    FROM unnest(
        $38::bigint[], $39::text[], $40::uuid[], $41::bigint[], $42::bigint[], $43::integer[], $44::text[],
        $45::integer[], $46::smallint[], $47::text[], $48::text[], $49::text[], $50::boolean[], $51::text[],
        $52::text[], $53::bytea[]
    ) AS m (
        no, tenant, job, seq, epoch, run, key, attempt, need, state, disposition, recovery, mutates, tool,
        compensation, request
    )
),
barred AS MATERIALIZED (
    SELECT m.no
    FROM said AS m
    WHERE CASE m.need
        WHEN 0 THEN (
            SELECT count(e.attempt) FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job AND e.key = m.key
        ) = 0
        WHEN 1 THEN (
            SELECT e.disposition FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job AND e.key = m.key AND e.attempt = m.attempt - 1
        ) = 'did_not_happen' AND (
            SELECT e.attempt FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job AND e.key = m.key AND e.attempt = m.attempt
        ) IS NULL
        WHEN 4 THEN (
            SELECT e.attempt FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job AND e.key = m.key AND e.attempt = m.attempt
        ) IS NULL
        ELSE (
            SELECT
                CASE m.need
                    WHEN 2 THEN e.state = 'started'
                    WHEN 3 THEN e.state = 'started' OR e.disposition IS NOT DISTINCT FROM 'in_doubt'
                    WHEN 5 THEN e.state = 'started' AND e.recovery IN ('probe', 'ask')
                END
            FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job AND e.key = m.key AND e.attempt = m.attempt
        )
    END IS NOT TRUE
),
-- A job has at most $54 attempts at effects, give or take one batch: what is decided from all of them stays bounded. What
-- they have done can be undone all the same.
full_up AS MATERIALIZED (
    SELECT m.no
    FROM said AS m
    WHERE m.state = 'started' AND NOT starts_with(m.key, 'undo:') AND (
        SELECT count(l.attempt) FROM (
            SELECT e.attempt FROM effects AS e
            WHERE e.tenant = m.tenant AND e.job = m.job
            LIMIT $54
        ) AS l
    ) >= $54
),
-- Nothing is announced on the account of a session whose budget is spent; what was done can be undone all the same. What is spent at
-- this moment is met by the next.
spent_out AS MATERIALIZED (
    SELECT m.no
    FROM said AS m
    WHERE m.state = 'started' AND NOT starts_with(m.key, 'undo:') AND (
        SELECT s.spent_micros >= s.budget_micros
        FROM sessions AS s
        WHERE s.tenant = m.tenant
            AND s.session = (SELECT j.session FROM jobs AS j WHERE j.tenant = m.tenant AND j.job = m.job)
    )
),
-- Sessions whose balance changes, each locked before any position is taken, as by a claim.
balances AS MATERIALIZED (
    SELECT
        m.no, m.tenant, m.session, m.runs_back, m.spent_micros, m.spent_tokens, m.spent_turns,
        (m.limit_change ->> 'budget_to')::bigint AS budget_to, (m.limit_change ->> 'run_cap_to')::integer AS run_cap_to
    FROM (
        SELECT
            a.no, a.tenant, a.runs_back, a.spent_micros, a.spent_tokens, a.spent_turns, a.limit_change,
            (SELECT j.session FROM jobs AS j WHERE j.tenant = a.tenant AND j.job = a.job) AS session
        FROM asked AS a
        WHERE a.runs_back > 0 OR a.spent_micros > 0 OR a.spent_tokens > 0 OR a.spent_turns > 0
            OR a.limit_change IS NOT NULL AND a.lease_change <> 4
        ORDER BY a.tenant, session
    ) AS m
    CROSS JOIN LATERAL (
        SELECT r.session FROM sessions AS r
        WHERE r.tenant = m.tenant AND r.session = m.session
        LIMIT 1
        FOR NO KEY UPDATE
    ) AS s
),
gifts AS MATERIALIZED (
    SELECT
        g.no, g.tenant, g.job, g.seq, g.child, g.session, g.agent, g.declaration, g.bundle, g.recovery, g.hops,
        g.priority, g.requires, g.traceparent, g.key_hash, g.payload_digest, g.depth, g.run_cap, g.budget_micros,
        g.submitted_by, g.upstream, g.wave, g.delivery_no, g.missing, g.body,
        -- What makes no job is a delivery that others are missing to, or that came late.
        g.starts, row_number() OVER (PARTITION BY g.tenant, g.session, g.agent, g.delivery_no ORDER BY g.no) AS rival,
        coalesce(g.deadline_at, statement_timestamp() + g.ceiling_s * interval '1 second') AS deadline_at
    FROM unnest(
        $68::bigint[], $69::text[], $70::uuid[], $71::bigint[], $72::uuid[], $73::uuid[], $74::text[], $75::bytea[],
        $76::bytea[], $77::jsonb[], $78::integer[], $79::smallint[], $80::jsonb[], $81::text[], $82::bytea[],
        $83::bytea[], $84::integer[], $85::integer[], $86::bigint[], $87::bigint[], $88::timestamptz[], $89::text[],
        $94::text[], $95::integer[], $96::integer[], $97::jsonb[], $98::bytea[], $99::boolean[]
    ) AS g (
        no, tenant, job, seq, child, session, agent, declaration, bundle, recovery, hops, priority, requires,
        traceparent, key_hash, payload_digest, depth, run_cap, budget_micros, ceiling_s, deadline_at, submitted_by,
        upstream, wave, delivery_no, missing, body, starts
    )
),
not_given AS MATERIALIZED (
    SELECT g.no
    FROM gifts AS g
    WHERE (
        SELECT s.child FROM sends AS s
        WHERE s.tenant = g.tenant AND s.job = g.job AND s.key_hash = g.key_hash
    ) IS NOT NULL OR (
        SELECT count(h.halt) FROM halts AS h
        WHERE h.lifted_at IS NULL
            AND halt_matches(h.scope, h.tenant, h.name, g.tenant, g.agent, g.declaration, g.submitted_by)
    ) > 0 OR g.delivery_no IS NOT NULL AND (g.rival > 1 OR (
        SELECT d.no FROM deliveries AS d
        WHERE d.tenant = g.tenant AND d.session = g.session AND d.agent = g.agent AND d.no = g.delivery_no
    ) IS NOT NULL)
),
admitted AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.head_seq, a.last_epoch, a.lease_change, a.ready_change, a.cause, a.not_before,
        a.changes_job, a.state, a.reason, a.detail, a.attempts, a.losses, a.hops_left, a.cancel_seq, a.concluded_seq,
        a.concluded_hash, a.unwinding, a.declaration, a.requires, a.bundle, a.limit_change
    FROM asked AS a
    WHERE a.generation = (SELECT p.generation FROM present AS p)
        -- Ready rows are deleted or changed only where they were there to be locked.
        AND (a.ready_change NOT IN (2, 3, 4) OR (a.tenant, a.job) IN (SELECT u.tenant, u.job FROM unqueued AS u))
        AND CASE a.guard
            WHEN 0 THEN (
                SELECT l.epoch FROM leases AS l
                WHERE l.tenant = a.tenant AND l.job = a.job AND l.released_at IS NULL
            ) = a.guard_epoch
            WHEN 1 THEN (
                SELECT l.epoch FROM leases AS l
                WHERE l.tenant = a.tenant AND l.job = a.job AND l.released_at IS NOT NULL
            ) = a.guard_epoch
            ELSE (SELECT count(l.epoch) FROM leases AS l WHERE l.tenant = a.tenant AND l.job = a.job) = 0
        END
        -- A job under an unreleased lease is not sealed; the others are looked at.
        AND (a.guard = 0 OR (
            SELECT j.state FROM jobs AS j WHERE j.tenant = a.tenant AND j.job = a.job
        ) NOT IN ('succeeded', 'cancelled', 'abandoned', 'expired'))
        AND (
            SELECT h.hash FROM journal AS h
            WHERE h.tenant = a.tenant AND h.job = a.job AND h.seq = a.head_seq
        ) = a.head_hash
        AND (
            SELECT h.seq FROM journal AS h
            WHERE h.tenant = a.tenant AND h.job = a.job AND h.seq = a.head_seq + 1
        ) IS NULL
        AND (a.no IN (SELECT b.no FROM barred AS b)) IS NOT TRUE
        AND (a.no IN (SELECT f.no FROM full_up AS f)) IS NOT TRUE
        AND (a.no IN (SELECT s.no FROM spent_out AS s)) IS NOT TRUE
        -- The sessions are locked before anything is written.
        AND (SELECT count(b.no) FROM balances AS b) IS NOT NULL
        AND (a.no IN (SELECT g.no FROM not_given AS g)) IS NOT TRUE
),
written AS (
    INSERT INTO journal (
        tenant, job, seq, generation, epoch, run, kind, n, request, at, bytes, hash, value, salt
    )
    SELECT
        r.tenant, r.job, r.seq, (SELECT p.generation FROM present AS p), r.epoch, r.run, r.kind, r.n, r.request, r.at,
        r.bytes, r.hash, r.value, r.salt
    FROM unnest(
        $24::bigint[], $25::text[], $26::uuid[], $27::bigint[], $28::bigint[], $29::integer[], $30::text[],
        $31::bigint[], $32::bytea[], $33::timestamptz[], $34::bytea[], $35::bytea[], $36::bytea[], $37::bytea[]
    ) AS r (no, tenant, job, seq, epoch, run, kind, n, request, at, bytes, hash, value, salt)
    -- IS TRUE keeps this a hashed look-up: as a join of two sets of unknown size it would compare each with each.
    WHERE (r.no IN (SELECT a.no FROM admitted AS a)) IS TRUE
    ORDER BY r.tenant, r.job, r.seq
    RETURNING seq
),
-- The positions are ours: of what was admitted all were inserted, or the statement failed. Counting what the insert
-- returned makes everything below wait for it.
taken AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.head_seq, a.last_epoch, a.lease_change, a.ready_change, a.cause, a.not_before,
        a.changes_job, a.state, a.reason, a.detail, a.attempts, a.losses, a.hops_left, a.cancel_seq, a.concluded_seq,
        a.concluded_hash, a.unwinding, a.declaration, a.requires, a.bundle, a.limit_change
    FROM admitted AS a
    WHERE (SELECT count(w.seq) FROM written AS w) > 0
),
balanced AS (
    UPDATE sessions AS s
    SET
        runs = greatest(s.runs - c.runs_back, 0),
        budget_micros = coalesce(c.budget_to, s.budget_micros),
        -- Never below what was used meanwhile.
        run_cap = greatest(coalesce(c.run_cap_to, s.run_cap), s.runs),
        -- A balance that is full stays full.
        spent_micros = least(s.spent_micros + c.micros, 9223372036854775807)::bigint,
        spent_tokens = least(s.spent_tokens + c.tokens, 9223372036854775807)::bigint,
        spent_turns = least(s.spent_turns + c.turns, 9223372036854775807)::bigint
    FROM (
        SELECT
            b.tenant, b.session, sum(b.runs_back)::integer AS runs_back, sum(b.spent_micros) AS micros,
            sum(b.spent_tokens) AS tokens, sum(b.spent_turns) AS turns, max(b.budget_to) AS budget_to,
            max(b.run_cap_to) AS run_cap_to
        FROM balances AS b
        WHERE (b.no IN (SELECT t.no FROM taken AS t)) IS TRUE
        GROUP BY b.tenant, b.session
    ) AS c
    WHERE s.tenant = c.tenant AND s.session = c.session
),
-- What the tenant spent in this minute. These rows are locked last, in order.
spent_by_tenants AS (
    INSERT INTO spending AS p (tenant, minute, micros)
    SELECT c.tenant, date_trunc('minute', statement_timestamp()), c.micros::bigint
    FROM (
        SELECT b.tenant, least(sum(b.spent_micros), 9223372036854775807) AS micros
        FROM balances AS b
        WHERE b.spent_micros > 0 AND (b.no IN (SELECT t.no FROM taken AS t)) IS TRUE
        GROUP BY b.tenant
        ORDER BY b.tenant
    ) AS c
    ON CONFLICT (tenant, minute) DO UPDATE
        SET micros = least(p.micros::numeric + excluded.micros, 9223372036854775807)::bigint
),
announced AS (
    INSERT INTO effects (
        tenant, job, key, attempt, state, recovery, mutates, tool, request, run, epoch, announced_seq, compensation
    )
    SELECT
        m.tenant, m.job, m.key, m.attempt, m.state, m.recovery, m.mutates, m.tool, m.request, m.run, m.epoch, m.seq,
        m.compensation
    FROM said AS m
    WHERE m.state = 'started' AND (m.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY m.tenant, m.job, m.key, m.attempt
),
ended_effects AS (
    UPDATE effects AS e
    SET state = m.state, disposition = m.disposition, outcome_seq = m.seq
    FROM said AS m
    WHERE m.state <> 'started'
        AND (m.no IN (SELECT t.no FROM taken AS t)) IS TRUE
        AND e.tenant = m.tenant AND e.job = m.job AND e.key = m.key AND e.attempt = m.attempt
),
-- What is given stands under ids that nobody else has, and under a key of the giver, whose position is ours. A depth is that of
-- a session of its own; without one the job is of the giver's session, whose row is not touched.
opened AS (
    INSERT INTO sessions (tenant, session, started_at, deadline_at, hops, run_cap, budget_micros, depth, parent_job)
    SELECT
        g.tenant, g.session, statement_timestamp(), g.deadline_at, g.hops, g.run_cap, g.budget_micros, g.depth, g.job
    FROM gifts AS g
    WHERE g.depth IS NOT NULL AND (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
),
given AS (
    INSERT INTO jobs (
        tenant, job, session, agent, declaration, bundle, state, hops_left, priority, requires, recovery, traceparent,
        submitted_by
    )
    SELECT
        g.tenant, g.child, g.session, g.agent, g.declaration, g.bundle, 'ready', g.hops, g.priority,
        ARRAY(SELECT jsonb_array_elements_text(g.requires)), g.recovery, g.traceparent, g.submitted_by
    FROM gifts AS g
    WHERE g.starts AND (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
),
-- The bodies of a wave go into the input of its job, and are not kept twice.
delivered AS (
    INSERT INTO deliveries (tenant, session, agent, no, upstream, wave, job, seq, child, starts, missing, body)
    SELECT
        g.tenant, g.session, g.agent, g.delivery_no, g.upstream, g.wave, g.job, g.seq, g.child, g.starts,
        ARRAY(SELECT jsonb_array_elements_text(g.missing)), g.body
    FROM gifts AS g
    WHERE g.delivery_no IS NOT NULL AND (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY g.tenant, g.session, g.agent, g.delivery_no
),
joined AS (
    UPDATE deliveries AS d
    SET body = ''
    FROM gifts AS g
    WHERE g.delivery_no IS NOT NULL AND g.starts AND (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
        AND d.tenant = g.tenant AND d.session = g.session AND d.agent = g.agent AND d.wave = g.wave
),
sent AS (
    INSERT INTO sends (tenant, job, key_hash, child, seq, payload_digest)
    SELECT g.tenant, g.job, g.key_hash, g.child, g.seq, g.payload_digest
    FROM gifts AS g
    WHERE (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY g.tenant, g.job, g.key_hash
),
offered AS (
    INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause)
    SELECT
        g.tenant, g.child, g.agent, g.priority, nextval('queue_numbers'),
        ARRAY(SELECT jsonb_array_elements_text(g.requires)), '{"kind": "dispatch"}'
    FROM gifts AS g
    WHERE g.starts AND (g.no IN (SELECT t.no FROM taken AS t)) IS TRUE
),
-- What a job remembers twice is kept once.
remembered AS (
    INSERT INTO memories (tenant, agent, job, seq, at, text_hash, text)
    SELECT r.tenant, j.agent, r.job, r.seq, r.at, sha256(r.value), r.value
    FROM unnest(
        $24::bigint[], $25::text[], $26::uuid[], $27::bigint[], $30::text[], $33::timestamptz[], $36::bytea[]
    ) AS r (no, tenant, job, seq, kind, at, value)
    CROSS JOIN LATERAL (
        SELECT o.agent FROM jobs AS o WHERE o.tenant = r.tenant AND o.job = r.job LIMIT 1
    ) AS j
    WHERE r.kind = 'remembered' AND (r.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY r.tenant, r.job, r.seq
    ON CONFLICT (tenant, job, text_hash) DO NOTHING
),
released AS (
    UPDATE leases AS l
    SET released_at = coalesce(l.released_at, statement_timestamp()), epoch = t.last_epoch
    FROM taken AS t
    WHERE t.lease_change = 1 AND l.tenant = t.tenant AND l.job = t.job
),
ended AS (
    DELETE FROM leases AS l
    USING taken AS t
    WHERE t.lease_change = 2 AND l.tenant = t.tenant AND l.job = t.job
),
-- The notice is the only record of its append, and nothing joins it from behind.
given_up AS (
    UPDATE leases AS l
    SET abandon_seq = t.head_seq + 1, abandoned_at = statement_timestamp()
    FROM taken AS t
    WHERE t.lease_change = 3 AND l.tenant = t.tenant AND l.job = t.job
),
refused AS (
    UPDATE leases AS l
    SET refused = t.limit_change
    FROM taken AS t
    WHERE t.lease_change = 4 AND l.tenant = t.tenant AND l.job = t.job
),
-- Of several notes the last is remembered, and its run is asked since the first. It is the only record of its append, too.
redirected AS (
    UPDATE leases AS l
    SET steer_seq = t.head_seq + 1, steered_at = coalesce(l.steered_at, statement_timestamp())
    FROM taken AS t
    WHERE t.lease_change = 5 AND l.tenant = t.tenant AND l.job = t.job
),
dequeued AS (
    DELETE FROM ready AS r
    USING taken AS t
    WHERE t.ready_change = 2 AND r.tenant = t.tenant AND r.job = t.job
),
queued AS (
    INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause, not_before)
    SELECT
        j.tenant, j.job, j.agent, j.priority,
        -- An instant that is not in the future does not delay.
        CASE WHEN t.not_before > statement_timestamp() THEN NULL ELSE nextval('queue_numbers') END,
        -- The row of the job is of the snapshot.
        CASE WHEN t.requires IS NULL THEN j.requires ELSE ARRAY(SELECT jsonb_array_elements_text(t.requires)) END,
        t.cause,
        CASE WHEN t.not_before > statement_timestamp() THEN t.not_before END
    FROM taken AS t
    JOIN jobs AS j ON j.tenant = t.tenant AND j.job = t.job
    WHERE t.ready_change = 1
),
requeued AS (
    UPDATE ready AS r
    SET cause = t.cause, not_before = NULL, queue_no = nextval('queue_numbers')
    FROM taken AS t
    WHERE t.ready_change = 3 AND r.tenant = t.tenant AND r.job = t.job
),
set_down AS (
    INSERT INTO layovers (tenant, job, seq, agent, due_at, try_at)
    SELECT b.tenant, b.job, b.seq, b.agent, r.due_at, r.due_at
    FROM (
        SELECT b.no, b.tenant, b.job, b.seq, (
            SELECT j.agent FROM jobs AS j WHERE j.tenant = b.tenant AND j.job = b.job
        ) AS agent
        FROM unnest($90::bigint[], $91::text[], $92::uuid[], $93::bigint[]) AS b (no, tenant, job, seq)
        WHERE (b.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ) AS b
    CROSS JOIN LATERAL (
        SELECT (convert_from(h.bytes, 'UTF8')::jsonb ->> 'until')::timestamptz AS due_at
        FROM journal AS h
        WHERE h.tenant = b.tenant AND h.job = b.job AND h.seq = b.seq AND h.kind = 'layover_booked'
        LIMIT 1
    ) AS r
    ORDER BY b.tenant, b.job
),
waited AS (
    INSERT INTO waits (tenant, job, seq, name, until, jobs)
    SELECT
        w.tenant, w.job, (w.wait ->> 'seq')::bigint, w.wait ->> 'name', (w.wait ->> 'until')::timestamptz,
        jsonb_array_length(w.wait -> 'jobs')
    FROM unnest($64::bigint[], $65::text[], $66::uuid[], $67::jsonb[]) AS w (no, tenant, job, wait)
    WHERE (w.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY w.tenant, w.job
),
awaiting AS (
    INSERT INTO awaited (tenant, job, awaited, place)
    SELECT w.tenant, w.job, n.awaited::uuid, n.place
    FROM unnest($64::bigint[], $65::text[], $66::uuid[], $67::jsonb[]) AS w (no, tenant, job, wait)
    CROSS JOIN LATERAL jsonb_array_elements_text(w.wait -> 'jobs') WITH ORDINALITY AS n (awaited, place)
    WHERE (w.no IN (SELECT t.no FROM taken AS t)) IS TRUE
    ORDER BY w.tenant, w.job, n.place
),
-- A job that is no longer suspended waits for nothing.
unwaited AS (
    DELETE FROM waits AS w
    USING taken AS t
    WHERE t.state IS NOT NULL AND t.state <> 'suspended' AND w.tenant = t.tenant AND w.job = t.job
),
-- In its place, and not before its instant.
recaused AS (
    UPDATE ready AS r
    SET cause = t.cause
    FROM taken AS t
    WHERE t.ready_change = 4 AND r.tenant = t.tenant AND r.job = t.job
),
changed AS (
    UPDATE jobs AS j
    SET
        state = coalesce(t.state, j.state),
        state_since = CASE WHEN t.state IS NULL THEN j.state_since ELSE statement_timestamp() END,
        -- An empty text clears.
        reason = nullif(coalesce(t.reason, j.reason), ''),
        detail = nullif(coalesce(t.detail, j.detail), ''),
        attempts = coalesce(t.attempts, j.attempts),
        losses = coalesce(t.losses, j.losses),
        hops_left = coalesce(t.hops_left, j.hops_left),
        cancel_seq = coalesce(t.cancel_seq, j.cancel_seq),
        concluded_seq = coalesce(t.concluded_seq, j.concluded_seq),
        concluded_hash = coalesce(t.concluded_hash, j.concluded_hash),
        unwinding = coalesce(t.unwinding, j.unwinding),
        declaration = coalesce(t.declaration, j.declaration),
        -- Where another declaration is accepted, what its agent has beside it, if anything.
        bundle = CASE WHEN t.declaration IS NULL THEN j.bundle ELSE t.bundle END,
        requires = CASE
            WHEN t.requires IS NULL THEN j.requires ELSE ARRAY(SELECT jsonb_array_elements_text(t.requires))
        END
    FROM taken AS t
    WHERE t.changes_job AND j.tenant = t.tenant AND j.job = t.job
)
SELECT t.no AS "no!" FROM taken AS t
