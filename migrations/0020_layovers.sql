-- Work that was set down and waits to be picked up: written in the statement that concludes its job with success, and deleted
-- once a session has picked it up. The table is new and empty.

CREATE TABLE layovers (
    tenant text COLLATE "C" NOT NULL,
    -- Who set it down, and the record that booked it.
    job uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 4),
    agent text COLLATE "C" NOT NULL,
    -- Picked up no earlier.
    due_at timestamptz NOT NULL,
    -- When it is tried next: at first when it is due.
    try_at timestamptz NOT NULL,
    -- Pick-ups that were refused, and the last refusal: when, its code, and why for a person.
    refusals integer NOT NULL DEFAULT 0 CHECK (refusals >= 0),
    refused_at timestamptz,
    code text,
    why text,
    PRIMARY KEY (tenant, job),
    CONSTRAINT tried_when_due CHECK (try_at >= due_at),
    CONSTRAINT refused_says_why CHECK ((refusals = 0) = (refused_at IS NULL) AND (refused_at IS NULL) = (code IS NULL))
);

CREATE INDEX layovers_tried ON layovers (try_at);
