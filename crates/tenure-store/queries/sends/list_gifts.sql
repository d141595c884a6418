-- Lists what a job gave to agents, in the order of its records: the job that came of it, what it is known by, and how deep its session
-- is, where that is its own. Index: the primary key of `sends`, for all rows of one giver, and those of `jobs` and `sessions`.
SELECT
    g.seq AS "seq!", g.child AS "child!", g.key_hash AS "key_hash!", g.payload_digest AS "payload_digest!",
    CASE WHEN c.session <> j.session THEN s.depth END AS "depth?"
FROM sends AS g
JOIN jobs AS j ON j.tenant = g.tenant AND j.job = g.job
JOIN jobs AS c ON c.tenant = g.tenant AND c.job = g.child
JOIN sessions AS s ON s.tenant = c.tenant AND s.session = c.session
WHERE g.tenant = $1 AND g.job = $2
ORDER BY g.seq
