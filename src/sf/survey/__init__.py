"""The deep scan: what a repository is made of and how it moves. Reads only, runs nothing of it."""
