"""Runs of the tuner: trials spread over tasks, then over the nodes of a network in their place."""
