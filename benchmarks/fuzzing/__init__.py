"""Seeded random damage to all kinds of user input, with a verdict on each case; `benchmarks/fuzz.py` counts the
verdicts.
"""
