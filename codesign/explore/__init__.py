"""Exploration: spaces of machines, their evaluation on networks, and searches for the best of them."""
