-- The journal: one append-only, hash-chained history per job. The primary key settles every race for a position; there is
-- no second index, and nothing is ever written here with ON CONFLICT, which would tear an append of two records.

CREATE TABLE journal (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 1),
    generation bigint NOT NULL CHECK (generation >= 1),
    epoch bigint NOT NULL CHECK (epoch >= 0),
    run integer NOT NULL CHECK (run >= 0),
    kind text COLLATE "C" NOT NULL,
    -- The number of the worker's append within its run, and the digest of what it sent.
    n bigint CHECK (n >= 1),
    request bytea CHECK (octet_length(request) = 32),
    -- The time inside the bytes; `stored_at` is the database's own.
    at timestamptz NOT NULL,
    -- What is hashed, and SHA-256(prev_hash || bytes).
    bytes bytea NOT NULL CHECK (octet_length(bytes) <= 65536),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- What lies beside the record, and the salt of its digest. Both go when it is erased.
    value bytea CHECK (octet_length(value) <= 262144),
    salt bytea CHECK (octet_length(salt) = 16),
    stored_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (tenant, job, seq),
    CONSTRAINT value_has_its_salt CHECK ((value IS NULL) = (salt IS NULL)),
    CONSTRAINT number_has_its_request CHECK ((n IS NULL) = (request IS NULL)),
    CONSTRAINT run_has_an_epoch CHECK (run = 0 OR epoch >= 1)
) PARTITION BY RANGE (job);

-- Effects as they stand, derived from the journal. The key is the last line of defence against a second announcement.
CREATE TABLE effects (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    key text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    attempt integer NOT NULL CHECK (attempt >= 1),
    state text COLLATE "C" NOT NULL,
    recovery text COLLATE "C" NOT NULL CHECK (recovery IN ('retry', 'idempotent', 'probe', 'ask')),
    mutates boolean NOT NULL,
    tool text COLLATE "C" NOT NULL,
    request bytea NOT NULL CHECK (octet_length(request) = 32),
    run integer NOT NULL CHECK (run >= 1),
    epoch bigint NOT NULL CHECK (epoch >= 1),
    announced_seq bigint NOT NULL CHECK (announced_seq >= 4),
    outcome_seq bigint,
    -- What became of the world, where the attempt failed.
    disposition text COLLATE "C" CHECK (disposition IN ('did_not_happen', 'in_doubt', 'landed')),
    PRIMARY KEY (tenant, job, key, attempt),
    CONSTRAINT state_is_known CHECK (state IN ('started', 'done', 'failed', 'reconciled')),
    CONSTRAINT outcome_follows_announcement CHECK (outcome_seq > announced_seq),
    CONSTRAINT started_has_no_outcome CHECK ((state = 'started') = (outcome_seq IS NULL)),
    CONSTRAINT failed_says_what_became CHECK ((state = 'failed') = (disposition IS NOT NULL))
) PARTITION BY RANGE (job);

-- Captured output, outside the chain: it may arrive late.
CREATE TABLE output (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    run integer NOT NULL CHECK (run >= 1),
    chunk bigint NOT NULL CHECK (chunk >= 0),
    stream text COLLATE "C" NOT NULL CHECK (stream IN ('stdout', 'stderr')),
    bytes bytea NOT NULL CHECK (octet_length(bytes) <= 65536),
    stored_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (tenant, job, run, chunk)
) PARTITION BY RANGE (job);
