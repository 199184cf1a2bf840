"""Runs of the tuner: `session.py` is common to all targets, `target.py` is the interface to a target."""
