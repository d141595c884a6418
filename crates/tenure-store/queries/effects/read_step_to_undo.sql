-- Reads the step of a job that is to be undone next: of those that took effect after the last pivot, whose undoing is declared
-- and did not take effect yet, the one that landed last (what somebody found out about later: when it was announced); or the same of some keys alone ($3), whatever pivot there is; with what was announced and what it returned. Reads only: permission
-- to undo comes from the statement that writes the announcement of the undoing. Indexes: the primary keys, of one job's
-- effects all.
SELECT
    s.key AS "key!",
    s.attempt AS "attempt!",
    s.recovery AS "recovery!",
    s.tool AS "tool!",
    a.value AS "request?",
    CASE WHEN s.state <> 'failed' THEN o.value END AS "output?"
FROM (
    SELECT e.tenant, e.job, e.key, e.attempt, e.state, e.recovery, e.tool, e.announced_seq, e.outcome_seq
    FROM effects AS e
    WHERE e.tenant = $1 AND e.job = $2 AND e.mutates AND e.compensation = 'undo'
        AND (e.state = 'done' OR e.disposition = 'landed')
        AND CASE cardinality($3::text[])
            WHEN 0 THEN CASE e.state WHEN 'reconciled' THEN e.announced_seq ELSE e.outcome_seq END > coalesce((
                SELECT max(CASE p.state WHEN 'reconciled' THEN p.announced_seq ELSE p.outcome_seq END) FROM effects AS p
                WHERE p.tenant = $1 AND p.job = $2 AND p.mutates AND p.compensation = 'pivot'
                    AND (p.state = 'done' OR p.disposition = 'landed')
            ), 0)
            ELSE e.key = ANY ($3)
        END
        AND (
            SELECT count(u.attempt) FROM effects AS u
            WHERE u.tenant = e.tenant AND u.job = e.job AND u.key = 'undo:' || e.key
                AND (u.state = 'done' OR u.disposition = 'landed')
        ) = 0
    ORDER BY CASE e.state WHEN 'reconciled' THEN e.announced_seq ELSE e.outcome_seq END DESC
    LIMIT 1
) AS s
CROSS JOIN LATERAL (
    SELECT r.value FROM journal AS r
    WHERE r.tenant = s.tenant AND r.job = s.job AND r.seq = s.announced_seq
    LIMIT 1
) AS a
LEFT JOIN LATERAL (
    SELECT r.value FROM journal AS r
    WHERE r.tenant = s.tenant AND r.job = s.job AND r.seq = s.outcome_seq
    LIMIT 1
) AS o ON true
