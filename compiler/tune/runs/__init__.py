"""Runs of the tuner: trials distributed over tasks, then over the nodes of a network, measured in place."""
