-- Reads the newest migration that was applied whole.
SELECT max(m.version) AS newest FROM _sqlx_migrations AS m WHERE m.success
