"""Proofs about the RTL: `bench` states them, `runner` has them proven, `faults` breaks the RTL, `catalogue` lists all."""
