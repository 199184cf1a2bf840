"""Formal proofs about the RTL: `bench` states properties, `runner` runs the solver, `faults` breaks the RTL,
`catalogue` lists all proofs.
"""
