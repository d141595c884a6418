-- What a session has used of its limits. Its row is changed by each run and each spend now, so room is left for that beside
-- rows that are stored from now on. The columns have constant defaults, so no row is rewritten; of the sessions that are there, those
-- with an unfinished job get the runs that their jobs had, which reads `jobs` once.

ALTER TABLE sessions
    ADD COLUMN runs integer NOT NULL DEFAULT 0 CHECK (runs >= 0),
    -- Money in micro-units of the tenant's currency.
    ADD COLUMN spent_micros bigint NOT NULL DEFAULT 0 CHECK (spent_micros >= 0),
    ADD COLUMN spent_tokens bigint NOT NULL DEFAULT 0 CHECK (spent_tokens >= 0),
    ADD COLUMN spent_turns bigint NOT NULL DEFAULT 0 CHECK (spent_turns >= 0);
ALTER TABLE sessions SET (fillfactor = 70);

UPDATE sessions AS s
SET runs = least(r.runs, s.run_cap)
FROM (
    SELECT j.tenant, j.session, sum(j.run) AS runs
    FROM jobs AS j
    GROUP BY j.tenant, j.session
    HAVING bool_or(j.state NOT IN ('succeeded', 'cancelled', 'abandoned', 'expired'))
) AS r
WHERE s.tenant = r.tenant AND s.session = r.session;

-- Behind the check of each claim: no program writes a run beyond the cap.
ALTER TABLE sessions ADD CONSTRAINT runs_within_cap CHECK (runs <= run_cap);
