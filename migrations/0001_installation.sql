-- The installation: which database this is, and the number of its history. One row, written by `tenure migrate`.

CREATE TABLE installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- PostgreSQL's own number for the cluster.
    system_id bigint NOT NULL,
    -- The first eight digits of a WAL file's name: it changes when a standby is promoted or a backup is restored.
    timeline text COLLATE "C" NOT NULL CHECK (timeline ~ '^[0-9A-F]{8}$'),
    generation bigint NOT NULL CHECK (generation >= 1),
    installed_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- The timeline as it is now. Every writing statement compares it with the installation's. A single expression, so that
-- the planner replaces the call by its body (0.2 µs).
CREATE FUNCTION present_timeline() RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) $$;
