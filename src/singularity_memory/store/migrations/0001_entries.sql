CREATE TABLE banks (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    words INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    bank INTEGER NOT NULL REFERENCES banks (number),
    document_id TEXT NOT NULL,
    content TEXT NOT NULL,
    words TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    negative INTEGER NOT NULL,
    version INTEGER NOT NULL,
    embedder TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    fresh_at REAL NOT NULL,
    observations INTEGER NOT NULL,
    helpful INTEGER NOT NULL,
    harmful INTEGER NOT NULL,
    helpful_score REAL NOT NULL,
    helpful_at REAL NOT NULL,
    accesses INTEGER NOT NULL,
    accessed_at REAL NOT NULL,
    UNIQUE (bank, document_id)
);

CREATE INDEX entries_by_change ON entries (bank, version);

CREATE TABLE vectors (
    row INTEGER PRIMARY KEY REFERENCES entries (row) ON DELETE CASCADE,
    data BLOB NOT NULL
);

CREATE TABLE labels (
    bank INTEGER NOT NULL,
    label TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES entries (row) ON DELETE CASCADE,
    PRIMARY KEY (bank, label, row)
) WITHOUT ROWID;

CREATE INDEX labels_by_row ON labels (row);
