-- Forgets what was picked up. Doing it twice is harmless. Index: the primary key.
DELETE FROM layovers AS l WHERE l.tenant = $1 AND l.job = $2
