"""The loop: what runs next, who may run it, and what happens when it ends."""
