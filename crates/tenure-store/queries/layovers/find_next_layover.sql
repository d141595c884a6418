-- Tells when the next layover is tried that is not due now. Index: `layovers_tried`.
SELECT
    (SELECT min(l.try_at) FROM layovers AS l WHERE l.try_at > statement_timestamp()) AS "next_at: _",
    statement_timestamp() AS "now!: _"
