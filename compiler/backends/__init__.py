"""Backends: compilation and execution for each target, behind one protocol (`backend.Backend`)."""
