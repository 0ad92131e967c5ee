"""The database: one small module per aggregate, SQL in named files, one writer."""
