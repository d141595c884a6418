-- What became of an effect that somebody looked up afterwards, its compensation, and outcomes that came too late.
-- The tables are empty in every installation that this can meet: nothing wrote to `effects` before.

ALTER TABLE effects DROP CONSTRAINT failed_says_what_became;
ALTER TABLE effects ADD CONSTRAINT outcome_says_what_became
    CHECK ((state IN ('failed', 'reconciled')) = (disposition IS NOT NULL));
ALTER TABLE effects ADD COLUMN compensation text COLLATE "C" NOT NULL
    CHECK (compensation IN ('undeclared', 'undo', 'pivot', 'unnecessary'));

-- Outcomes of effects that arrived after their run was fenced or their job sealed. Outside the chain: they decide nothing.
CREATE TABLE testimony (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    -- The number of the append in its run, and the place of the record in it.
    n bigint NOT NULL CHECK (n >= 1),
    place integer NOT NULL CHECK (place >= 0),
    run integer NOT NULL CHECK (run >= 1),
    key text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    attempt integer NOT NULL CHECK (attempt >= 1),
    state text COLLATE "C" NOT NULL CHECK (state IN ('done', 'failed', 'reconciled')),
    disposition text COLLATE "C" CHECK (disposition IN ('did_not_happen', 'in_doubt', 'landed')),
    value bytea CHECK (octet_length(value) <= 65536),
    arrived_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (tenant, job, epoch, n, place),
    CONSTRAINT outcome_says_what_became CHECK ((state IN ('failed', 'reconciled')) = (disposition IS NOT NULL))
) PARTITION BY RANGE (job);
