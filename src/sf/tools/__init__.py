"""What the native agent can do: one tool per file. Tools never import policy; the turn loop asks it first."""
