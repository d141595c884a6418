-- Reads the step of a job that is to be undone next: of those that took effect after the last pivot, whose undoing is declared
-- and did not take effect yet, the one that landed last (what somebody found out about later: when it was announced); or the same of some keys alone ($3), whatever pivot there is; with what was announced and what it returned. What is in doubt and
-- can be looked up goes first: a verdict may add a step, or a pivot. Around a doubt that cannot be looked up nothing is undone, nor where a step took effect
-- of whose undoing nobody spoke. Reads only: permission
-- to undo comes from the statement that writes the announcement of the undoing. Indexes: the primary keys, of one job's
-- effects all.
SELECT
    s.key AS "key!",
    s.attempt AS "attempt!",
    s.recovery AS "recovery!",
    s.tool AS "tool!",
    s.in_doubt AS "in_doubt!",
    a.value AS "request?",
    CASE WHEN s.state <> 'failed' THEN o.value END AS "output?"
FROM (
    SELECT
        l.tenant, l.job, l.key, l.attempt, l.state, l.recovery, l.tool, l.announced_seq, l.outcome_seq, l.in_doubt
    FROM (
        SELECT
            d.tenant, d.job, d.key, d.attempt, d.state, d.recovery, d.tool, d.announced_seq, d.outcome_seq, d.in_doubt,
            d.probed, d.compensation, d.landed, d.took_seq, d.undoes,
            coalesce(max(d.took_seq) FILTER (WHERE d.landed AND d.compensation = 'pivot') OVER (), 0) AS pivot_seq
        FROM (
            SELECT
                e.tenant, e.job, e.key, e.attempt, e.state, e.recovery, e.tool, e.announced_seq, e.outcome_seq,
                e.compensation,
                CASE e.state WHEN 'reconciled' THEN e.announced_seq ELSE e.outcome_seq END AS took_seq,
                e.state = 'done' OR e.disposition IS NOT DISTINCT FROM 'landed' AS landed,
                e.state = 'started' OR e.disposition IS NOT DISTINCT FROM 'in_doubt' AS in_doubt,
                e.state <> 'reconciled' AND e.recovery = 'probe' AS probed,
                starts_with(e.key, 'undo:') AS undoes
            FROM effects AS e
            WHERE e.tenant = $1 AND e.job = $2 AND e.mutates
        ) AS d
    ) AS l
    WHERE CASE
        WHEN l.in_doubt THEN l.probed AND NOT l.undoes AND cardinality($3::text[]) = 0
        ELSE l.landed AND l.compensation = 'undo'
            AND CASE cardinality($3) WHEN 0 THEN l.took_seq > l.pivot_seq ELSE l.key = ANY ($3) END
            AND (
                SELECT count(u.attempt) FROM effects AS u
                WHERE u.tenant = l.tenant AND u.job = l.job AND u.key = 'undo:' || l.key
                    AND (u.state = 'done' OR u.disposition = 'landed')
            ) = 0
            AND (cardinality($3) > 0 OR (
                SELECT count(b.attempt) FROM effects AS b
                WHERE b.tenant = l.tenant AND b.job = l.job AND b.mutates AND NOT starts_with(b.key, 'undo:')
                    AND (
                        b.state = 'started' OR b.disposition IS NOT DISTINCT FROM 'in_doubt'
                        OR b.compensation = 'undeclared' AND (b.state = 'done' OR b.disposition = 'landed')
                            AND CASE b.state WHEN 'reconciled' THEN b.announced_seq ELSE b.outcome_seq END > l.pivot_seq
                    )
            ) = 0)
    END
    ORDER BY l.in_doubt DESC, coalesce(l.took_seq, l.announced_seq) DESC
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
