-- Reads what lies beside the record that concluded a job with success, or that record, where nothing lies there. Index: the
-- primary keys of `jobs` and `journal`.
SELECT r.value, CASE WHEN r.value IS NULL THEN r.bytes END AS concluded
FROM jobs AS j
JOIN journal AS r ON r.tenant = j.tenant AND r.job = j.job AND r.seq = j.concluded_seq
WHERE j.tenant = $1 AND j.job = $2 AND j.state = 'succeeded'
