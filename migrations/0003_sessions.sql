-- What one submission set in motion owns the shared limits. The deadline stands here and nowhere else.

CREATE TABLE sessions (
    tenant text COLLATE "C" NOT NULL,
    session uuid NOT NULL,
    -- The later of the submission and a requested start.
    started_at timestamptz NOT NULL,
    -- Absolute, by the database's clock; null: no ceiling.
    deadline_at timestamptz,
    hops integer NOT NULL CHECK (hops >= 0),
    run_cap integer NOT NULL CHECK (run_cap >= 0),
    budget_micros bigint NOT NULL CHECK (budget_micros >= 0),
    PRIMARY KEY (tenant, session)
);

-- What must be unique beyond a job cannot be unique in a partitioned table, so it has a table of its own.
CREATE TABLE submission_keys (
    tenant text COLLATE "C" NOT NULL,
    key_hash bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    job uuid NOT NULL,
    payload_digest bytea NOT NULL CHECK (octet_length(payload_digest) = 32),
    PRIMARY KEY (tenant, key_hash)
);
