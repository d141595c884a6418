-- Keeps outcomes of effects that arrived too late to be recorded. They stand outside the chain and fence nobody, so nothing
-- is checked but that the attempt was announced: what is said about nothing is not kept. The same report gets its place
-- once, whoever keeps it again: its number in its run is the key, and the first is not changed. Index: the primary keys.
INSERT INTO testimony (tenant, job, epoch, n, place, run, key, attempt, state, disposition, value)
SELECT t.tenant, t.job, t.epoch, t.n, t.place, t.run, t.key, t.attempt, t.state, t.disposition, t.value
FROM unnest(
    $1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::text[], $8::integer[],
    $9::text[], $10::text[], $11::bytea[]
) AS t (tenant, job, epoch, n, place, run, key, attempt, state, disposition, value)
WHERE (
    SELECT e.attempt FROM effects AS e
    WHERE e.tenant = t.tenant AND e.job = t.job AND e.key = t.key AND e.attempt = t.attempt
) IS NOT NULL
ORDER BY t.tenant, t.job, t.epoch, t.n, t.place
ON CONFLICT DO NOTHING
