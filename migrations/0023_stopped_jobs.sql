-- Which jobs have stopped without being sealed, and since when: the few rows that are looked through for what needs a person.
-- No index on the state of `jobs` finds them, because with one no change of a job's state would be a HOT update, and every
-- healthy job would pay for it. A trigger keeps the table, so that no statement that changes a job can forget it; its condition
-- is false for a job that goes from `ready` to its success. The table is filled from the jobs that are there, which reads
-- `jobs` once.

CREATE TABLE stopped_jobs (
    tenant text COLLATE "C" NOT NULL,
    job uuid NOT NULL,
    state text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (tenant, job)
);

CREATE INDEX stopped_jobs_newest ON stopped_jobs (tenant, state, since DESC, job DESC);

CREATE FUNCTION has_stopped(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT state IN ('interrupted', 'failed', 'exhausted', 'withheld', 'quarantined')
$$;

CREATE FUNCTION note_stopped_job() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF has_stopped(NEW.state) THEN
        INSERT INTO stopped_jobs AS s (tenant, job, state, since)
        VALUES (NEW.tenant, NEW.job, NEW.state, NEW.state_since)
        ON CONFLICT (tenant, job) DO UPDATE SET state = EXCLUDED.state, since = EXCLUDED.since;
    ELSE
        DELETE FROM stopped_jobs AS s WHERE s.tenant = NEW.tenant AND s.job = NEW.job;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER jobs_stopped_at_once AFTER INSERT ON jobs
FOR EACH ROW WHEN (has_stopped(NEW.state)) EXECUTE FUNCTION note_stopped_job();

CREATE TRIGGER jobs_stopped AFTER UPDATE OF state ON jobs
FOR EACH ROW WHEN (OLD.state <> NEW.state AND (has_stopped(OLD.state) OR has_stopped(NEW.state)))
EXECUTE FUNCTION note_stopped_job();

INSERT INTO stopped_jobs (tenant, job, state, since)
SELECT j.tenant, j.job, j.state, j.state_since
FROM jobs AS j
WHERE has_stopped(j.state);

-- Waits for jobs by the instant at which they expire, and pick-ups that were refused by when.
CREATE INDEX waits_expired ON waits (tenant, until) WHERE jobs > 0;
CREATE INDEX layovers_refused ON layovers (tenant, refused_at) WHERE refusals > 0;
