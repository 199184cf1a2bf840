"""Verification of the toolkit: random programs, co-simulation of simulator and RTL, seeded faults."""
