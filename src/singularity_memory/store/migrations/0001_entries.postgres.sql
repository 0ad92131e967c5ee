CREATE TABLE banks (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version BIGINT NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL DEFAULT 0,
    entries BIGINT NOT NULL DEFAULT 0,
    words BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE entries (
    row BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    bank BIGINT NOT NULL REFERENCES banks (number),
    document_id TEXT NOT NULL,
    content TEXT NOT NULL,
    words TEXT NOT NULL,
    terms TEXT[] NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    negative INTEGER NOT NULL,
    version BIGINT NOT NULL,
    embedder TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    fresh_at DOUBLE PRECISION NOT NULL,
    observations BIGINT NOT NULL,
    helpful BIGINT NOT NULL,
    harmful BIGINT NOT NULL,
    helpful_score DOUBLE PRECISION NOT NULL,
    helpful_at DOUBLE PRECISION NOT NULL,
    accesses BIGINT NOT NULL,
    accessed_at DOUBLE PRECISION NOT NULL,
    UNIQUE (bank, document_id)
);

CREATE INDEX entries_by_change ON entries (bank, version);

CREATE INDEX entries_by_term ON entries USING gin (terms);

CREATE TABLE labels (
    bank BIGINT NOT NULL,
    label TEXT NOT NULL,
    row BIGINT NOT NULL REFERENCES entries (row) ON DELETE CASCADE,
    PRIMARY KEY (bank, label, row)
);

CREATE INDEX labels_by_row ON labels (row);

CREATE TABLE vectors (
    row BIGINT NOT NULL REFERENCES entries (row) ON DELETE CASCADE,
    passage INTEGER NOT NULL,
    embedder TEXT NOT NULL,
    data halfvec NOT NULL,
    PRIMARY KEY (row, passage)
);
