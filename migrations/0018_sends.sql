-- What runs gave to agents: which job came of which gift, so that a later run that repeats its script is answered with that job.
-- Like the keys of submissions it is a table of its own, because a child's id may lie in another partition than its giver's.
-- Sessions know how deep they are and which job spawned them; the columns have defaults that need no rewrite.

CREATE TABLE sends (
    tenant text COLLATE "C" NOT NULL,
    -- The giver.
    job uuid NOT NULL,
    -- SHA-256 of what the gift is known by.
    key_hash bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    -- The job that came of it, and the record of the giver with which it stands.
    child uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 4),
    payload_digest bytea NOT NULL CHECK (octet_length(payload_digest) = 32),
    PRIMARY KEY (tenant, job, key_hash)
);

-- Who gave a job its work.
CREATE INDEX sends_child ON sends (child);

ALTER TABLE sessions ADD COLUMN depth integer NOT NULL DEFAULT 0 CHECK (depth >= 0);
ALTER TABLE sessions ADD COLUMN parent_job uuid;
ALTER TABLE sessions ADD CONSTRAINT deep_has_a_parent CHECK ((depth > 0) = (parent_job IS NOT NULL));
