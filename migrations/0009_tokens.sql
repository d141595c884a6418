-- Credentials: what is kept of tokens, and the key by which coordinators know the secrets of runs as their own. Both are
-- small and read whole. The column of the one row of `installation` is filled by its default, which draws 32 bytes anew
-- for each row; without the row, when the row is written.

CREATE TABLE tokens (
    -- What tells tokens apart; no secret.
    token text COLLATE "C" PRIMARY KEY CHECK (token ~ '^[0-9a-f]{16}$'),
    -- SHA-256 of the token's text. The text itself is shown once, and kept nowhere.
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- Names, or `*` alone for every tenant.
    tenants text[] NOT NULL CHECK (cardinality(tenants) >= 1),
    actor text NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 128),
    scopes text[] NOT NULL CHECK (
        cardinality(scopes) >= 1 AND scopes <@ ARRAY['submit', 'read', 'work', 'operate', 'administer']
    ),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- Absent: it does not end by itself.
    expires_at timestamptz,
    -- A row that was revoked stays: where there ever was a token, every call needs one.
    revoked_at timestamptz
);

ALTER TABLE installation ADD COLUMN run_key bytea NOT NULL
    DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
    CHECK (octet_length(run_key) = 32);
