"""Configuration: the schema, loading with every error listed, and live reload."""
