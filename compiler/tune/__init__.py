"""The tuner: searches spaces of schedules, guided by a learned cost model. Candidates run on the simulator, on
processors and on GPUs.
"""
