-- Reads the last attempt under each of some keys, as far as it matters to what may be said next; nothing where nothing was
-- announced. Reads only: whoever races with it is answered in the next round. Index: the primary key, backwards, key by key.
SELECT
    a.no AS "no!",
    e.attempt AS "attempt!",
    e.state AS "state!",
    e.disposition AS "disposition?",
    e.recovery AS "recovery!"
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::text[]) AS a (no, tenant, job, key)
CROSS JOIN LATERAL (
    SELECT e.attempt, e.state, e.disposition, e.recovery
    FROM effects AS e
    WHERE e.tenant = a.tenant AND e.job = a.job AND e.key = a.key
    ORDER BY e.attempt DESC
    LIMIT 1
) AS e
