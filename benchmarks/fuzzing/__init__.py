"""Seeded random damage to all inputs of users, with a verdict on each case; `benchmarks/fuzz.py` counts
the verdicts.
"""
