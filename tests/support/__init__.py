"""What the tests share: a project's ground in a real database, and builders of units and plans."""
