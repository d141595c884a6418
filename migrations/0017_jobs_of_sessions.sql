-- The jobs of a session are listed by this index. Without the tenant, which is compared with the few rows that are found: with it in front,
-- plans made while a partition was empty would use it for look-ups by (tenant, job). A session's id never changes, so no change of a
-- job's state touches the index. On a large table each partition is indexed in turn, and writes to it wait meanwhile.

CREATE INDEX jobs_session ON jobs (session);
