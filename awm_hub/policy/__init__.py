"""Policies: what chooses an agent's next action."""
