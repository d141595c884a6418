-- Tells when the next wait for an instant is due that is not due now. Index: `waits_due`.
SELECT
    (SELECT min(w.until) FROM waits AS w WHERE w.jobs = 0 AND w.until > statement_timestamp()) AS "next_at: _",
    statement_timestamp() AS "now!: _"
