"""Proofs about the RTL: `bench` states them, `runner` runs them, `faults` breaks the RTL, `catalogue` lists all."""
