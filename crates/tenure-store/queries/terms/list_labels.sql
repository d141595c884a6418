-- Lists the labels of the workers whose terms are open, with the tenants that each serves. Reads the table whole, which has a
-- row for each worker and those that left within the hour; asked once in a pass.
SELECT t.tenants, t.labels
FROM terms AS t
WHERE t.closed_at IS NULL
