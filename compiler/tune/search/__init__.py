"""Searches of spaces: a learned cost model and what proposes points with it, and baselines."""
