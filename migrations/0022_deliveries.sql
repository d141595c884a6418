-- What upstreams delivered to joins, by session and agent of the join, numbered in the order in which it came. The number is chosen by whoever
-- writes, from what it read: the primary key lets one of two that chose the same write. The rows of a wave name the job that it
-- makes, which one of them starts; the others keep their bodies until then.

CREATE TABLE deliveries (
    tenant text COLLATE "C" NOT NULL,
    session uuid NOT NULL,
    agent text COLLATE "C" NOT NULL,
    no integer NOT NULL CHECK (no > 0),
    upstream text COLLATE "C" NOT NULL,
    wave integer NOT NULL CHECK (wave > 0),
    -- Who delivered, and the record with which it stands.
    job uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 4),
    child uuid NOT NULL,
    starts boolean NOT NULL,
    -- Who had not delivered after it.
    missing text[] NOT NULL,
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    body bytea NOT NULL,
    PRIMARY KEY (tenant, session, agent, no),
    CONSTRAINT once_in_a_wave UNIQUE (tenant, session, agent, wave, upstream)
);

CREATE UNIQUE INDEX deliveries_start ON deliveries (tenant, session, agent, wave) WHERE starts;
