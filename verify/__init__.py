"""Verification of the toolkit itself: random programs, co-simulation of simulator and RTL, seeded faults, fuzzing."""
