"""Searches of spaces of schedules: a learned cost model, strategies that propose points with it, and baselines."""
