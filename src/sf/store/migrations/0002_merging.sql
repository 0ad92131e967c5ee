-- How to tell that a merge laid out in a worktree is resolved: the label of its markers, and the files beside.
ALTER TABLE units ADD COLUMN merge_marks TEXT;

-- What the gate's script was, so that a proof by another script is none.
ALTER TABLE gate_results ADD COLUMN script TEXT NOT NULL DEFAULT '';
