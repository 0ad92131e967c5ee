"""The layer between models and orchestration: transitions, attempts, turns, prompts, budget."""
