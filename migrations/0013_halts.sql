-- Halts: standing refusals of work for a scope. Rows and no flags, independent of each other; what was lifted stays, with who
-- lifted it. Jobs remember who submitted them. Their column is added empty, which rewrites nothing; what is not sealed is
-- filled from the first record of its journal, a look-up each.

CREATE TABLE halts (
    halt bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    -- Absent: the whole fleet.
    tenant text COLLATE "C",
    -- The agent, the revision's digest in hexadecimal digits, or the principal.
    name text COLLATE "C",
    why text NOT NULL CHECK (why <> ''),
    thrown_by jsonb NOT NULL CHECK (jsonb_typeof(thrown_by) = 'object'),
    thrown_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    lifted_by jsonb CHECK (jsonb_typeof(lifted_by) = 'object'),
    lift_why text CHECK (lift_why <> ''),
    lifted_at timestamptz,
    CONSTRAINT scope_is_known CHECK (scope IN ('fleet', 'tenant', 'agent', 'revision', 'principal')),
    CONSTRAINT scope_has_its_parts CHECK (
        (tenant IS NULL) = (scope = 'fleet') AND (name IS NULL) = (scope IN ('fleet', 'tenant'))
    ),
    CONSTRAINT lift_is_whole CHECK (num_nulls(lifted_by, lift_why, lifted_at) IN (0, 3))
);

-- Thrown once more by the same person for the same reason it is the same halt.
CREATE UNIQUE INDEX halts_standing
    ON halts (scope, coalesce(tenant, ''), coalesce(name, ''), (thrown_by ->> 'actor'), md5(why))
    WHERE lifted_at IS NULL;

-- Which jobs a halt matches, in one place. A scope that this release does not know matches every job: it was thrown to stop
-- something. A single expression, so that the planner replaces the call by its body.
CREATE FUNCTION halt_matches(
    scope text, halted_tenant text, name text, tenant text, agent text, declaration bytea, submitted_by text
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE scope
        WHEN 'fleet' THEN true
        WHEN 'tenant' THEN halted_tenant = tenant
        WHEN 'agent' THEN halted_tenant = tenant AND name = agent
        WHEN 'revision' THEN halted_tenant = tenant AND name = encode(declaration, 'hex')
        WHEN 'principal' THEN halted_tenant = tenant AND name IS NOT DISTINCT FROM submitted_by
        ELSE true
    END
$$;

ALTER TABLE jobs ADD COLUMN submitted_by text COLLATE "C";

UPDATE jobs AS j
SET submitted_by = convert_from(r.bytes, 'UTF8')::jsonb #>> '{by,actor}'
FROM journal AS r
WHERE r.tenant = j.tenant AND r.job = j.job AND r.seq = 1
    AND j.state NOT IN ('succeeded', 'cancelled', 'abandoned', 'expired');
