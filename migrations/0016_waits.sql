-- What suspended jobs wait for. A row stands for as long as its job is suspended: the statement that takes the job into
-- another state deletes it, whatever the reason. Both tables are new and empty.

CREATE TABLE waits (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    -- The record that suspended the job; whoever wakes names it.
    seq bigint NOT NULL CHECK (seq >= 4),
    name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 256),
    -- For an instant: when it is due. For jobs: when the wait for them expires.
    until timestamptz NOT NULL,
    -- How many jobs it is for; 0: for the instant.
    jobs integer NOT NULL CHECK (jobs >= 0),
    PRIMARY KEY (tenant, job)
);

CREATE INDEX waits_due ON waits (until) WHERE jobs = 0;

-- The jobs that are waited for, and what came of each as far as it was noticed. What was noticed stays: a job that is
-- resumed after it failed has failed for whoever waited.
CREATE TABLE awaited (
    tenant text COLLATE "C" NOT NULL,
    -- Who waits.
    job uuid NOT NULL,
    -- For whom.
    awaited uuid NOT NULL,
    -- The order in which they were asked for.
    place integer NOT NULL,
    outcome text COLLATE "C" CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'abandoned', 'expired')),
    reason text,
    PRIMARY KEY (tenant, job, awaited),
    FOREIGN KEY (tenant, job) REFERENCES waits (tenant, job) ON DELETE CASCADE
);

-- Who waits for a job that concluded; and whether anything is left to wait for. Each outcome costs one entry of both, so that
-- the whole of a wait costs as much as it has jobs. The two conditions say the same in different words, and so do the
-- statements that they are for: while the table has no statistics, the planner takes one for the other otherwise, and reads
-- everything that a tenant waits for.
CREATE INDEX awaited_open ON awaited (tenant, awaited) WHERE outcome IS NULL;
CREATE INDEX awaited_left ON awaited (tenant, job) WHERE coalesce(outcome, '') = '';
