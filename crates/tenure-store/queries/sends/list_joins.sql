-- Lists the waves of a session's joins that wait, the oldest first: who delivered, who is missing, and whether a job of the session is left that
-- could deliver. A wave of which some delivery started the job does not wait. Indexes: the primary key of `deliveries`, `jobs_session`.
SELECT
    w.agent AS "agent!", w.wave AS "wave!", w.child AS "child!", w.upstreams AS "upstreams!", w.missing AS "missing!",
    w.since AS "since!: _",
    (
        SELECT count(*) FROM jobs AS j
        WHERE j.tenant = $1 AND j.session = $2
            AND j.state NOT IN ('succeeded', 'failed', 'cancelled', 'abandoned', 'expired')
    ) = 0 AS "stalled!"
FROM (
    SELECT
        d.agent, d.wave, (array_agg(d.child ORDER BY d.no))[1] AS child,
        array_agg(d.upstream ORDER BY d.no) AS upstreams,
        -- As it was after the latest of them.
        (
            SELECT l.missing FROM deliveries AS l
            WHERE l.tenant = $1 AND l.session = $2 AND l.agent = d.agent AND l.no = max(d.no)
        ) AS missing,
        min(d.at) AS since
    FROM deliveries AS d
    WHERE d.tenant = $1 AND d.session = $2
    GROUP BY d.agent, d.wave
    HAVING NOT bool_or(d.starts)
    ORDER BY min(d.at), d.agent
    LIMIT $3
) AS w
ORDER BY w.since, w.agent
