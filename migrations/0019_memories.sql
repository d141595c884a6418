-- What agents remember beyond sessions: lines that runs left, by tenant and agent. What a job remembers twice is kept once.

CREATE SEQUENCE memory_numbers;

CREATE TABLE memories (
    tenant text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    no bigint NOT NULL DEFAULT nextval('memory_numbers'),
    -- The job and the record that left it.
    job uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 4),
    at timestamptz NOT NULL,
    text_hash bytea NOT NULL CHECK (octet_length(text_hash) = 32),
    text bytea NOT NULL CHECK (octet_length(text) <= 4096),
    PRIMARY KEY (tenant, agent, no),
    CONSTRAINT once_in_a_job UNIQUE (tenant, job, text_hash)
);
