-- Values that no row of the journal takes: where each lies in the blob store. The table is empty in every installation that
-- this meets. The value itself is never here; its salt is, until it is erased.

CREATE TABLE blobs (
    tenant text COLLATE "C" NOT NULL,
    -- Its place in the blob store: below the tenant's name, the pieces below this.
    blob uuid NOT NULL,
    -- How records name it: SHA-256(salt || value), and the length. Null until all of it was stored.
    sha256 bytea CHECK (octet_length(sha256) = 32),
    bytes bigint CHECK (bytes > 262144),
    salt bytea CHECK (octet_length(salt) = 16),
    -- SHA-256 of the value alone, by which a submission that is sent again is known.
    content bytea CHECK (octet_length(content) = 32),
    -- The job that it belongs to; null until a submission names it.
    job uuid,
    -- When it was last begun, stored or bound.
    touched_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- True once a record of its job is known to name it.
    kept boolean NOT NULL DEFAULT false,
    -- Erased, or never named by anything: its pieces are to be deleted, and then this row.
    gone boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, blob),
    CONSTRAINT stored_whole CHECK ((sha256 IS NULL) = (bytes IS NULL)),
    CONSTRAINT salted_until_gone CHECK (gone OR (sha256 IS NULL) = (salt IS NULL)),
    CONSTRAINT known_until_gone CHECK (gone OR (sha256 IS NULL) = (content IS NULL)),
    CONSTRAINT gone_is_unsalted CHECK (NOT gone OR salt IS NULL AND content IS NULL),
    CONSTRAINT bound_is_stored CHECK (job IS NULL OR sha256 IS NOT NULL)
);

CREATE UNIQUE INDEX blobs_named ON blobs (tenant, sha256);
CREATE INDEX blobs_of_job ON blobs (tenant, job) WHERE job IS NOT NULL;
-- What a sweep looks at; most rows are in neither.
CREATE INDEX blobs_unsettled ON blobs (touched_at) WHERE NOT kept AND NOT gone;
CREATE INDEX blobs_gone ON blobs (tenant, blob) WHERE gone;
