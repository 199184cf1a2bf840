"""Runs of the tuner: trials are distributed over the tasks of a network (its distinct layers), each measured alone;
further trials then change one node at a time and measure the whole network.
"""
