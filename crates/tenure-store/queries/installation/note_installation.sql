-- Notes which database this is, once. Of two who migrate at the same time, the first stands.
INSERT INTO installation (system_id, timeline, generation)
SELECT c.system_identifier, present_timeline(), 1
FROM pg_control_system() AS c
ON CONFLICT (only_row) DO NOTHING
