"""Chooses schedules for the networks of a design: trials of several schedules, the choice among them, and their
reconstruction from records.
"""

FRONT_TRIALS = 4
"""Default number of schedules that are tried for each layer of the designs on the Pareto front."""
