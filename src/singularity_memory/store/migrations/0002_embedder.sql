CREATE INDEX entries_by_embedder ON entries (bank, embedder);
