-- Reads what some settings are for this connection, in their own units, and who is connected where. Nothing is locked and no
-- table is read: settings are functions of the server.
SELECT
    s.name AS "name!",
    s.setting AS "value!",
    session_user::text AS "role!",
    current_database()::text AS "database!"
FROM pg_settings AS s
WHERE s.name = ANY($1::text[])
