"""Frozen data and pure rules: what a unit is and how it moves."""
