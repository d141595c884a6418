-- Reads the installation's row, and the timeline as it is now. One row; no index.
SELECT
    i.system_id, i.timeline, present_timeline() AS "present_timeline!", i.generation,
    i.installed_at AS "installed_at: _"
FROM installation AS i
