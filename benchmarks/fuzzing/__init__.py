"""Seeded damage to everything that users hand in, and what becomes of it; `benchmarks/fuzz.py` counts."""
