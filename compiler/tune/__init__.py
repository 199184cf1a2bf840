"""The tuner: searches spaces of schedules with a learned cost model; candidates run on the simulator, on processors and
on GPUs.
"""
