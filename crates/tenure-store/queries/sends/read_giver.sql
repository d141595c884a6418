-- Reads where a giver stands beside its facts: its priority, who submitted it, how deep its session is, and the job that came of the gift under this
-- key, where one did. Reads only: a gift that is made meanwhile takes the giver's next position. Indexes: the primary keys of
-- `jobs`, `sessions`, `sends`.
SELECT
    j.priority AS "priority!",
    j.submitted_by AS "submitted_by?",
    s.depth AS "depth!",
    g.child AS "child?",
    g.payload_digest AS "payload_digest?",
    (SELECT c.session FROM jobs AS c WHERE c.tenant = j.tenant AND c.job = g.child) AS "child_session?"
FROM jobs AS j
JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
LEFT JOIN sends AS g ON g.tenant = j.tenant AND g.job = j.job AND g.key_hash = $3
WHERE j.tenant = $1 AND j.job = $2
