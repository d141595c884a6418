-- Lists what was delivered to a join in a session, by number. Reads only: whoever delivers next takes the number after the last. Index:
-- the primary key.
SELECT
    d.upstream AS "upstream!", d.wave AS "wave!", d.job AS "job!", d.child AS "child!", d.starts AS "starts!",
    d.body AS "body!"
FROM deliveries AS d
WHERE d.tenant = $1 AND d.session = $2 AND d.agent = $3
ORDER BY d.no
