-- Jobs, partitioned by the time in their ids (UUIDv7), a month each. The journal is the truth; these are its derived rows,
-- written in the same statements as the records that they derive from.

CREATE TABLE jobs (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    session uuid NOT NULL,
    agent text COLLATE "C" NOT NULL,
    declaration bytea NOT NULL CHECK (octet_length(declaration) = 32),
    bundle bytea CHECK (octet_length(bundle) = 32),
    state text COLLATE "C" NOT NULL,
    state_since timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- A stable word, and the same for a person.
    reason text CHECK (reason <> ''),
    detail text CHECK (detail <> ''),
    -- Runs so far; restarts granted that drew on max-attempts, on max-losses; hops of the present or next run.
    run integer NOT NULL DEFAULT 0 CHECK (run >= 0),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    losses integer NOT NULL DEFAULT 0 CHECK (losses >= 0),
    hops_left integer NOT NULL CHECK (hops_left >= 0),
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    requires text[] NOT NULL DEFAULT '{}',
    -- What the plan froze.
    recovery jsonb NOT NULL CHECK (jsonb_typeof(recovery) = 'object'),
    traceparent text,
    submitted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- The record by which a cancel was asked for.
    cancel_seq bigint CHECK (cancel_seq >= 3),
    -- The head when the job last concluded, outside the chain: a cut-off tail is found by it.
    concluded_seq bigint CHECK (concluded_seq >= 3),
    concluded_hash bytea CHECK (octet_length(concluded_hash) = 32),
    PRIMARY KEY (tenant, job),
    CONSTRAINT state_is_known CHECK (state IN (
        'ready', 'running', 'suspended', 'interrupted', 'succeeded', 'failed', 'exhausted', 'withheld', 'quarantined',
        'cancelled', 'abandoned', 'expired'
    )),
    CONSTRAINT running_has_a_run CHECK (state NOT IN ('running', 'interrupted', 'succeeded') OR run >= 1),
    CONSTRAINT interrupted_says_why CHECK (state <> 'interrupted' OR reason IS NOT NULL),
    CONSTRAINT concluded_has_a_head CHECK (
        state IN ('ready', 'running', 'suspended', 'interrupted') OR concluded_seq IS NOT NULL
    ),
    CONSTRAINT concluded_head_is_whole CHECK ((concluded_seq IS NULL) = (concluded_hash IS NULL)),
    CONSTRAINT cancelled_was_asked_for CHECK (state <> 'cancelled' OR cancel_seq IS NOT NULL)
) PARTITION BY RANGE (job);

-- People name a job by the end of its id, because beginnings are alike for a minute. The last six digits, an expression
-- over the id alone, so that no change of state touches this index. Without the tenant, which is compared with the few rows
-- that are found: with it in front, plans that were made while a partition was empty used this index for every look-up by
-- (tenant, job), and kept doing so when it was full.
CREATE INDEX jobs_ending ON jobs ((right(job::text, 6) COLLATE "C"));

CREATE SEQUENCE queue_numbers;

-- The queue: narrow and unpartitioned, a row only while its job waits for a worker.
CREATE TABLE ready (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    agent text COLLATE "C" NOT NULL,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    -- New each time the job becomes claimable; null while it is delayed.
    queue_no bigint,
    requires text[] NOT NULL,
    -- Why the next run starts.
    cause jsonb NOT NULL CHECK (jsonb_typeof(cause) = 'object'),
    not_before timestamptz,
    PRIMARY KEY (tenant, job),
    CONSTRAINT numbered_or_delayed CHECK ((queue_no IS NULL) = (not_before IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ready_queue ON ready (priority, queue_no) WHERE not_before IS NULL;
CREATE INDEX ready_due ON ready (not_before) WHERE not_before IS NOT NULL;
