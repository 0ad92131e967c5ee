-- Where the unit's work is: the project folder whose autopilot first took it. NULL: nowhere yet, or in the
-- one place there is when the store is a file.
ALTER TABLE units ADD COLUMN station TEXT;
