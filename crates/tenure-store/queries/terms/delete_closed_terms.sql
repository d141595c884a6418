-- Deletes terms that were closed a while ago and have no leases. A claim that commits after the closing began before it,
-- and a statement lives for seconds, so after $1 milliseconds no new lease can come. Index: `leases_term`.
DELETE FROM terms AS t
WHERE t.closed_at <= statement_timestamp() - $1::bigint * interval '1 millisecond'
    AND NOT EXISTS (SELECT FROM leases AS l WHERE l.worker = t.worker AND l.term = t.term)
    AND (SELECT i.timeline FROM installation AS i) = present_timeline()
