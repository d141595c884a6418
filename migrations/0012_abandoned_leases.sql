-- A lease remembers the notice that gives its job up, and since when it stands, for as long as its run has not answered.
-- The table has as many rows as runs are under way, and the new columns are empty, so nothing is rewritten. The index holds
-- the few rows that a notice stands for.

ALTER TABLE leases ADD COLUMN abandon_seq bigint CHECK (abandon_seq >= 1);
ALTER TABLE leases ADD COLUMN abandoned_at timestamptz;
ALTER TABLE leases ADD CONSTRAINT abandon_has_its_time CHECK ((abandon_seq IS NULL) = (abandoned_at IS NULL));

CREATE INDEX leases_abandoned ON leases (abandoned_at) WHERE abandoned_at IS NOT NULL;
