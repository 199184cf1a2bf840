"""Runs of the tuner. First, trials are distributed over the tasks of a network (its distinct layers), and each task is
measured alone. Further trials then change one node at a time and measure the whole network.
"""
