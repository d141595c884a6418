-- Tells whether anything was ever migrated here. Where the table is absent, nothing was.
SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "migrated!"
