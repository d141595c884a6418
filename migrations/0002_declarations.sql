-- Declarations and policy bundles, content-addressed and kept: a job remembers the digests that it was admitted under.

CREATE TABLE declarations (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- Canonical JSON. Agents that are declared alike share it.
    document bytea NOT NULL CHECK (octet_length(document) <= 262144),
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    applied_by text NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE bundles (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    document bytea NOT NULL CHECK (octet_length(document) <= 262144),
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    applied_by text NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- The present declaration of each agent.
CREATE TABLE agents (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL CHECK (agent ~ '^[a-z][a-z0-9-]{0,62}$'),
    digest bytea NOT NULL,
    bundle bytea,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    applied_by text NOT NULL,
    PRIMARY KEY (tenant, agent),
    FOREIGN KEY (tenant, digest) REFERENCES declarations (tenant, digest),
    FOREIGN KEY (tenant, bundle) REFERENCES bundles (tenant, digest)
);
