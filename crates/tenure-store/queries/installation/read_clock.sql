-- Reads the clock that decides: that of statements.
SELECT statement_timestamp() AS "now!: _"
