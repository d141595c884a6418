-- What a tenant spent, by the minute: what counts in a rolling day is at most 1,441 short rows, which are added to in place. And
-- the limit that refused something that a run asked for, which its lease remembers until the run is over.

CREATE TABLE spending (
    tenant text COLLATE "C" NOT NULL,
    minute timestamptz NOT NULL,
    -- Money in micro-units of the tenant's currency.
    micros bigint NOT NULL CHECK (micros >= 0),
    PRIMARY KEY (tenant, minute)
) WITH (fillfactor = 50);

ALTER TABLE leases ADD COLUMN refused jsonb
    CONSTRAINT refused_names_its_limit CHECK (refused IS NULL OR refused ->> 'limit' IS NOT NULL);
