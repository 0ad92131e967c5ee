"""Singularity Memory: knowledge that survives, with recall that is measured. It imports nothing from sf."""
