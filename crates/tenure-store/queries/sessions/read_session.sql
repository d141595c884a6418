-- Reads a session: its limits, and what it has used of them. Index: the primary key.
SELECT
    s.started_at AS "started_at: _", s.deadline_at AS "deadline_at?: _", s.hops, s.run_cap, s.runs, s.budget_micros,
    s.spent_micros, s.spent_tokens, s.spent_turns, statement_timestamp() AS "now!: _"
FROM sessions AS s
WHERE s.tenant = $1 AND s.session = $2
