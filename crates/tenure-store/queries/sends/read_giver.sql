-- Reads where a giver stands beside its facts: its priority, who submitted it, how deep its session is, the bundle that it is held to, and the job that came of the gift under this
-- key, where one did. Reads only: a gift that is made meanwhile takes the giver's next position. Indexes: the primary keys of
-- `jobs`, `sessions`, `bundles`, `sends`.
SELECT
    j.priority AS "priority!",
    j.submitted_by AS "submitted_by?",
    s.depth AS "depth!",
    b.document AS "bundle_document?",
    g.child AS "child?",
    g.payload_digest AS "payload_digest?",
    -- What was delivered to a join that waits is a job of the same session to be.
    coalesce(
        (SELECT c.session FROM jobs AS c WHERE c.tenant = j.tenant AND c.job = g.child), j.session
    ) AS "child_session!"
FROM jobs AS j
JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
LEFT JOIN bundles AS b ON b.tenant = j.tenant AND b.digest = j.bundle
LEFT JOIN sends AS g ON g.tenant = j.tenant AND g.job = j.job AND g.key_hash = $3
WHERE j.tenant = $1 AND j.job = $2
