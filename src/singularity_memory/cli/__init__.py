"""The `singularity-memory` command."""
