ALTER TABLE units ADD COLUMN reverted_at BIGINT;
CREATE INDEX units_reverted ON units(reverted_at) WHERE reverted_at IS NOT NULL;
ALTER TABLE evidence DROP CONSTRAINT evidence_kind_check;
ALTER TABLE evidence ADD CONSTRAINT evidence_kind_check CHECK (kind IN ('gate','review','merge','claim','revert'));
