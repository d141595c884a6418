-- Erases a part of what a job holds, and writes the record that says so at the next position: value and salt of its records,
-- captured output, what was said too late, the digests by which its content could be guessed, and the salts of its blobs,
-- whose pieces are deleted afterwards. This also on a job that is sealed; no other record comes there.
--
-- Races: a claim or any other record takes the position, and the primary key settles it: this fails as a whole then. There is
-- no lease, so that nobody writes under one; the head is the one that was read, so the state is, too.
--
-- $12 is true where the input is erased, false where it is everything that the runs wrote. Index: the primary keys;
-- `blobs_of_job`, `sends_child`.
WITH admitted AS MATERIALIZED (
    SELECT i.generation
    FROM installation AS i
    WHERE i.timeline = present_timeline() AND i.generation = $3
        AND (SELECT h.hash FROM journal AS h WHERE h.tenant = $1 AND h.job = $2 AND h.seq = $4::bigint - 1) = $5
        AND (SELECT h.seq FROM journal AS h WHERE h.tenant = $1 AND h.job = $2 AND h.seq = $4) IS NULL
        AND (SELECT count(l.epoch) FROM leases AS l WHERE l.tenant = $1 AND l.job = $2) = 0
        AND (SELECT j.state FROM jobs AS j WHERE j.tenant = $1 AND j.job = $2)
            NOT IN ('ready', 'running', 'suspended')
),
written AS (
    INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash)
    SELECT $1, $2, $4, a.generation, $6, $7, $8, $9, $10, $11
    FROM admitted AS a
    RETURNING seq
),
-- The position is ours, or the statement failed. Counting what the insert returned makes everything below wait for it.
taken AS MATERIALIZED (
    SELECT a.generation FROM admitted AS a WHERE (SELECT count(w.seq) FROM written AS w) > 0
),
values_gone AS (
    UPDATE journal AS r
    SET value = NULL, salt = NULL
    FROM taken
    WHERE r.tenant = $1 AND r.job = $2 AND r.seq < $4 AND r.value IS NOT NULL
        AND (r.kind = 'job_admitted') = $12::boolean
    RETURNING r.seq
),
blobs_gone AS (
    UPDATE blobs AS b
    SET gone = true, salt = NULL, content = NULL
    FROM taken
    WHERE b.tenant = $1 AND b.job = $2 AND NOT b.gone
        AND (b.sha256 = $13) IS NOT DISTINCT FROM $12::boolean
    RETURNING b.blob
),
output_gone AS (
    DELETE FROM output AS o
    USING taken
    WHERE NOT $12::boolean AND o.tenant = $1 AND o.job = $2
    RETURNING o.chunk
),
testimony_gone AS (
    UPDATE testimony AS t
    SET value = NULL
    FROM taken
    WHERE NOT $12::boolean AND t.tenant = $1 AND t.job = $2 AND t.value IS NOT NULL
    RETURNING t.n
),
-- 32 zero bytes stand for a digest that was erased. That of an attempt without an outcome stays: what settles it is asked
-- whether it is about the same command.
requests_gone AS (
    UPDATE effects AS e
    SET request = decode(repeat('00', 32), 'hex')
    FROM taken
    WHERE NOT $12::boolean AND e.tenant = $1 AND e.job = $2 AND e.state <> 'started'
    RETURNING e.attempt
),
payload_gone AS (
    UPDATE submission_keys AS k
    SET payload_digest = decode(repeat('00', 32), 'hex')
    FROM taken
    WHERE $12::boolean AND k.tenant = $1 AND k.key_hash = $14 AND k.job = $2
    RETURNING k.job
),
memory_gone AS (
    DELETE FROM memories AS m
    USING taken
    WHERE NOT $12::boolean AND m.tenant = $1 AND m.job = $2
    RETURNING m.no
),
-- As `payload_gone`, for work that a run gave; and what the gift is known by is made of it, so that goes too. A run of the giver
-- that repeats its script gives it anew.
gift_gone AS (
    UPDATE sends AS g
    SET payload_digest = decode(repeat('00', 32), 'hex'), key_hash = sha256(g.key_hash || uuid_send(gen_random_uuid()))
    FROM taken
    WHERE $12::boolean AND g.tenant = $1 AND g.child = $2
    RETURNING g.child
)
SELECT
    (SELECT count(*) FROM written) AS "written!",
    (SELECT count(*) FROM values_gone) + (SELECT count(*) FROM blobs_gone) + (SELECT count(*) FROM output_gone)
    + (SELECT count(*) FROM testimony_gone) AS "erased!"
