-- The first commits of the repository that a store belongs to: every clone of it has one of them.
CREATE TABLE repository_roots (
  root_commit TEXT PRIMARY KEY,
  recorded_at INTEGER NOT NULL
);
