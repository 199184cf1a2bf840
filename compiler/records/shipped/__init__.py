"""Tuning records that ship with the package: the best of each workload for the named configurations, by kind
of target.
"""
