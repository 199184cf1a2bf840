"""Searches of spaces: a learned cost model, the strategies that propose points with it, and baselines."""
