"""The `sf` command."""
