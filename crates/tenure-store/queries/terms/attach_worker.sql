-- Makes a new attach the current one and so displaces the one before. Two attaches of one term take the row one after the
-- other and get different numbers; the later is the current one. Compares the hash of a random secret of 32 bytes, which
-- tells nothing to who measures the comparison. Whoever may not act for all tenants of the registration ($4; `*` stands for
-- every one) displaces nobody. Index: the primary key.
UPDATE terms AS t
SET attach = t.attach + 1
FROM installation AS i
WHERE t.worker = $1 AND t.term = $2 AND t.secret_hash = $3 AND t.closed_at IS NULL
    AND (t.tenants <@ $4 OR '*' = ANY($4)) AND i.timeline = present_timeline()
RETURNING
    t.attach, t.answer, t.ttl_ms, t.labels, t.agents, t.tenants, t.slots, t.fencing, i.generation
