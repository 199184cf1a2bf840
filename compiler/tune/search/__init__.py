"""Searches of spaces of schedules: a learned cost model, the strategies that use it to propose points, and
baselines.
"""
