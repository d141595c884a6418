-- Counts what the gauges of a coordinator show, all in one snapshot and over all tenants. Reads only. It scans the jobs and
-- effects that are there, so whoever asks rests for a multiple of the time that it took. An effect without an outcome is
-- under way while its job has a live lease, and in doubt otherwise.
SELECT 'jobs' AS "of!", j.state AS "word!", count(*) AS "count!"
FROM jobs AS j
GROUP BY j.state
UNION ALL
SELECT 'queue', CASE WHEN q.not_before IS NULL THEN 'claimable' ELSE 'delayed' END, count(*)
FROM ready AS q
GROUP BY 2
UNION ALL
SELECT 'leases', CASE WHEN l.released_at IS NULL THEN 'live' ELSE 'unaccounted' END, count(*)
FROM leases AS l
GROUP BY 2
UNION ALL
SELECT 'terms', CASE WHEN t.closed_at IS NULL THEN 'open' ELSE 'closed' END, count(*)
FROM terms AS t
GROUP BY 2
UNION ALL
SELECT 'effects', CASE WHEN l.job IS NOT NULL AND e.state = 'started' THEN 'under_way' ELSE 'in_doubt' END, count(*)
FROM effects AS e
LEFT JOIN leases AS l ON l.tenant = e.tenant AND l.job = e.job AND l.released_at IS NULL
WHERE e.state = 'started' OR e.disposition IS NOT DISTINCT FROM 'in_doubt'
GROUP BY 2
