-- A lease remembers the last notice that redirects its job, and since when its run is asked, as it remembers one that gives it up.
-- The table has as many rows as runs are under way, and the new columns are empty, so nothing is rewritten. One index holds the
-- few rows that a notice of either kind stands for, in place of the one for those that were given up.

ALTER TABLE leases ADD COLUMN steer_seq bigint CHECK (steer_seq >= 1);
ALTER TABLE leases ADD COLUMN steered_at timestamptz;
ALTER TABLE leases ADD CONSTRAINT steer_has_its_time CHECK ((steer_seq IS NULL) = (steered_at IS NULL));

DROP INDEX leases_abandoned;
CREATE INDEX leases_noticed ON leases (least(abandoned_at, steered_at)) WHERE least(abandoned_at, steered_at) IS NOT NULL;
