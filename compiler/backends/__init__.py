"""Backends: what each target does to compile and to run, behind one protocol (`backend.Backend`)."""
