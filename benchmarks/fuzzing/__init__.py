"""Seeded damage to all inputs of users, and its verdicts; `benchmarks/fuzz.py` counts."""
