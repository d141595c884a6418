-- Judges blobs that were not touched for a while and that no record was known to name: what a record of its job names is
-- kept; what belongs to a job that has a lease is left for later, behind all others, because its run may yet name it; the rest goes, salt and
-- all. A row that another statement binds meanwhile is waited for and judged anew, because its `touched_at` is new then.
--
-- Index: `blobs_unsettled`; for each blob that is bound, the journal of its job by the primary key.
WITH old AS MATERIALIZED (
    SELECT b.tenant, b.blob, b.job, b.sha256, b.touched_at
    FROM blobs AS b
    WHERE NOT b.kept AND NOT b.gone AND b.touched_at < statement_timestamp() - $1 * interval '1 second'
    ORDER BY b.touched_at
    LIMIT $2
),
judged AS MATERIALIZED (
    SELECT
        o.tenant, o.blob, o.touched_at,
        (
            SELECT count(r.seq)
            FROM journal AS r
            WHERE r.tenant = o.tenant AND r.job = o.job AND r.kind IN ('job_admitted', 'job_concluded')
                AND position(convert_to(encode(o.sha256, 'hex'), 'UTF8') IN r.bytes) > 0
        ) > 0 AS named,
        (
            SELECT count(l.epoch) FROM leases AS l WHERE l.tenant = o.tenant AND l.job = o.job
        ) > 0 AS leased
    FROM old AS o
),
settled AS (
    UPDATE blobs AS b
    SET
        kept = j.named,
        gone = NOT (j.named OR j.leased),
        salt = CASE WHEN j.named OR j.leased THEN b.salt END,
        content = CASE WHEN j.named OR j.leased THEN b.content END,
        touched_at = CASE WHEN j.leased AND NOT j.named THEN statement_timestamp() ELSE b.touched_at END
    FROM judged AS j
    WHERE b.tenant = j.tenant AND b.blob = j.blob AND b.touched_at = j.touched_at AND NOT b.gone
    RETURNING b.gone, b.kept
)
SELECT count(*) FILTER (WHERE s.gone) AS "gone!", count(*) FILTER (WHERE s.kept) AS "kept!" FROM settled AS s
