-- Stores a batch of submissions: key, session, job, the first records, and either the row in the queue or, where a worker
-- is free and its term allows it, its first lease with the record of the claim (epoch 1).
--
-- Races: a key that is being taken by another transaction is waited for, and then left to it; the caller reads afterwards
-- who has it. Keys are taken in order, so that two batches do not deadlock; of several with one key in this batch the first
-- wins. What a halt stands against is not stored, nor is its key. Everything else is under ids that nobody else has. A job that is there already (its caller did not get the answer)
-- is left alone. The claim is judged by this statement's time: a term that closes meanwhile leaves a lease that the sweep
-- finds.
--
-- Indexes: the primary keys. ON CONFLICT stands at the keys alone, never at the journal.
WITH present AS MATERIALIZED (
    SELECT i.generation FROM installation AS i WHERE i.timeline = present_timeline()
),
asked AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.session, a.agent, a.declaration, a.bundle, a.recovery, a.hops, a.run_cap,
        a.budget_micros, a.priority, a.labels, a.requires, a.traceparent, a.generation, a.key_hash, a.payload_digest,
        a.submitted_by,
        greatest(statement_timestamp(), a.not_before) AS started_at,
        -- An instant that is not in the future does not delay.
        CASE WHEN a.not_before > statement_timestamp() THEN a.not_before END AS not_before,
        coalesce(
            a.deadline_at,
            greatest(statement_timestamp(), a.not_before) + a.ceiling_s * interval '1 second'
        ) AS deadline_at,
        a.worker, a.term, a.attach, a.secret_hash, a.cause
    FROM unnest(
        $1::bigint[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::bytea[], $8::jsonb[],
        $9::integer[], $10::integer[], $11::bigint[], $12::smallint[], $13::jsonb[], $14::jsonb[], $15::text[],
        $16::bigint[], $17::bytea[], $18::bytea[], $19::timestamptz[], $20::bigint[], $21::timestamptz[], $22::text[],
        $23::bigint[], $24::bigint[], $25::bytea[], $38::text[], $39::jsonb[]
    ) AS a (
        no, tenant, job, session, agent, declaration, bundle, recovery, hops, run_cap, budget_micros, priority, labels,
        requires, traceparent, generation, key_hash, payload_digest, not_before, ceiling_s, deadline_at, worker, term,
        attach, secret_hash, submitted_by, cause
    )
    WHERE a.generation = (SELECT p.generation FROM present AS p)
        AND (
            SELECT count(h.halt) FROM halts AS h
            WHERE h.lifted_at IS NULL
                AND halt_matches(h.scope, h.tenant, h.name, a.tenant, a.agent, a.declaration, a.submitted_by)
        ) = 0
        AND (SELECT j.state FROM jobs AS j WHERE j.tenant = a.tenant AND j.job = a.job) IS NULL
),
keyed AS (
    INSERT INTO submission_keys (tenant, key_hash, job, payload_digest)
    SELECT a.tenant, a.key_hash, a.job, a.payload_digest
    FROM asked AS a
    WHERE a.key_hash IS NOT NULL
    ORDER BY a.tenant, a.key_hash, a.no
    ON CONFLICT (tenant, key_hash) DO NOTHING
    RETURNING tenant, job
),
admitted AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.session, a.agent, a.declaration, a.bundle, a.recovery, a.hops, a.run_cap,
        a.budget_micros, a.priority, a.labels, a.requires, a.traceparent, a.generation, a.submitted_by, a.started_at,
        a.not_before,
        a.deadline_at, a.worker, a.term, a.attach, a.secret_hash, a.cause,
        -- The guard of the claim. Absent worker: no claim was asked for.
        a.not_before IS NULL
            AND (a.deadline_at IS NULL OR a.deadline_at > statement_timestamp())
            AND a.run_cap > 0 AND a.budget_micros > 0
            AND coalesce((
                SELECT t.attach = a.attach AND t.closed_at IS NULL AND t.expires_at > statement_timestamp()
                FROM terms AS t
                WHERE t.worker = a.worker AND t.term = a.term
            ), false) AS claimed
    FROM asked AS a
    WHERE a.key_hash IS NULL OR (a.tenant, a.job) IN (SELECT k.tenant, k.job FROM keyed AS k)
),
-- The order of the batch is the order of the queue.
numbered AS MATERIALIZED (
    SELECT
        a.no, a.tenant, a.job, a.agent, a.priority, a.requires, a.not_before, a.deadline_at, a.claimed, a.cause,
        CASE WHEN NOT a.claimed AND a.not_before IS NULL THEN nextval('queue_numbers') END AS queue_no
    FROM admitted AS a
),
opened AS (
    INSERT INTO sessions (tenant, session, started_at, deadline_at, hops, run_cap, budget_micros, runs)
    SELECT
        a.tenant, a.session, a.started_at, a.deadline_at, a.hops, a.run_cap, a.budget_micros,
        CASE WHEN a.claimed THEN 1 ELSE 0 END
    FROM admitted AS a
),
stored AS (
    INSERT INTO jobs (
        tenant, job, session, agent, declaration, bundle, state, run, hops_left, priority, labels, requires, recovery,
        traceparent, submitted_by
    )
    SELECT
        a.tenant, a.job, a.session, a.agent, a.declaration, a.bundle,
        CASE WHEN a.claimed THEN 'running' ELSE 'ready' END,
        CASE WHEN a.claimed THEN 1 ELSE 0 END,
        a.hops, a.priority, a.labels,
        ARRAY(SELECT jsonb_array_elements_text(a.requires)),
        a.recovery, a.traceparent, a.submitted_by
    FROM admitted AS a
),
written AS (
    INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash, value, salt)
    SELECT
        r.tenant, r.job, r.seq, (SELECT p.generation FROM present AS p), r.epoch, r.run, r.kind, r.at, r.bytes, r.hash,
        r.value, r.salt
    FROM unnest(
        $26::bigint[], $27::text[], $28::uuid[], $29::bigint[], $30::bigint[], $31::integer[], $32::text[],
        $33::timestamptz[], $34::bytea[], $35::bytea[], $36::bytea[], $37::bytea[]
    ) AS r (no, tenant, job, seq, epoch, run, kind, at, bytes, hash, value, salt)
    -- The record of the claim, the only one under an epoch, is written only where the claim is. OR keeps these hashed
    -- look-ups: as joins of sets of unknown size they would compare each with each.
    WHERE r.epoch = 0 AND (r.no IN (SELECT a.no FROM admitted AS a)) IS TRUE
        OR r.no IN (SELECT a.no FROM admitted AS a WHERE a.claimed)
    ORDER BY r.tenant, r.job, r.seq
),
leased AS (
    INSERT INTO leases (tenant, job, epoch, run_epoch, run, generation, worker, term, attach, secret_hash)
    SELECT a.tenant, a.job, 1, 1, 1, a.generation, a.worker, a.term, a.attach, a.secret_hash
    FROM admitted AS a
    WHERE a.claimed
),
queued AS (
    INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause, not_before)
    SELECT
        a.tenant, a.job, a.agent, a.priority, a.queue_no, ARRAY(SELECT jsonb_array_elements_text(a.requires)),
        a.cause, a.not_before
    FROM numbered AS a
    WHERE NOT a.claimed
)
SELECT
    a.no AS "no!",
    a.deadline_at AS "deadline_at?: _",
    a.claimed AS "claimed!",
    a.queue_no AS "queue_no?",
    statement_timestamp() AS "now!: _"
FROM numbered AS a
