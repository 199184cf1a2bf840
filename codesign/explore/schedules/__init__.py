"""Schedules of a design: trials, the choice among them, and their reconstruction from records."""

FRONT_TRIALS = 4
"""Default number of schedules of each layer that are tried on the designs of a front."""
