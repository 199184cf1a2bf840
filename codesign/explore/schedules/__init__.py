"""Schedules of a design: what is tried, what is chosen, and how it is made again."""

FRONT_TRIALS = 4
"""Schedules of each layer that are tried on the designs of a front, unless told."""
