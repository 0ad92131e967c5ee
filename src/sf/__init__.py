"""sf: an autopilot for software engineering that its user owns end to end."""

__version__ = "0.1.0"
