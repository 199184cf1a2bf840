"""Tuning records that ship with the package, by kind of target. They have the best record of each workload, for named
accelerator configurations and for other targets.
"""
