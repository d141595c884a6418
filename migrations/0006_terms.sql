-- Workers' terms, and the leases that they hold. A term is one row, renewed for all its leases at once and closed on that
-- same row. No index but the key, so that a renewal is a HOT update.

CREATE SEQUENCE term_numbers;

CREATE TABLE terms (
    worker text COLLATE "C" NOT NULL CHECK (worker ~ '^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$'),
    term bigint NOT NULL DEFAULT nextval('term_numbers'),
    -- The number of the current attach; 0 before the first.
    attach bigint NOT NULL DEFAULT 0 CHECK (attach >= 0),
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    tenants text[] NOT NULL,
    labels text[] NOT NULL,
    -- Only these; empty: all.
    agents text[] NOT NULL,
    slots integer NOT NULL CHECK (slots BETWEEN 1 AND 10000),
    ttl_ms bigint NOT NULL CHECK (ttl_ms BETWEEN 5000 AND 300000),
    fencing text COLLATE "C" NOT NULL CHECK (fencing IN ('none', 'guardian', 'kernel')),
    version text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    renewed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at timestamptz NOT NULL,
    -- The number of the last answer: microseconds of the database's clock, always rising.
    answer bigint NOT NULL CHECK (answer >= 1),
    closed_at timestamptz,
    PRIMARY KEY (worker, term),
    CONSTRAINT closed_after_it_lapsed CHECK (closed_at >= expires_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- One row while a job has a run that is unsettled, or whose child is not known to be gone.
CREATE TABLE leases (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    -- The present epoch: that of the claim, or of the settlement after it.
    epoch bigint NOT NULL,
    -- The epoch of the claim.
    run_epoch bigint NOT NULL CHECK (run_epoch >= 1),
    run integer NOT NULL CHECK (run >= 1),
    generation bigint NOT NULL CHECK (generation >= 1),
    worker text COLLATE "C" NOT NULL,
    term bigint NOT NULL,
    attach bigint NOT NULL CHECK (attach >= 1),
    -- SHA-256 of the run's secret, the only credential of its guardian.
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    granted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- Set when the run is settled while its child is not known to be gone.
    released_at timestamptz,
    PRIMARY KEY (tenant, job),
    CONSTRAINT epoch_never_falls CHECK (epoch >= run_epoch),
    CONSTRAINT unreleased_has_its_own_epoch CHECK (released_at IS NOT NULL OR epoch = run_epoch)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX leases_term ON leases (worker, term);
