-- Notes a blob before the first of its pieces is stored, so that whatever is left of a broken upload is found. Nobody else
-- has its id.
INSERT INTO blobs (tenant, blob) VALUES ($1, $2)
