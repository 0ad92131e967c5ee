"""How people and programs reach sf."""
