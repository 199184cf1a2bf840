"""Exploration: spaces of machines (accelerator configurations), their evaluation on networks, and searches for the best
machines.
"""
