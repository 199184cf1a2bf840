"""Measures which faults the checks find: mutations of the netlist, and one-line faults in RTL, simulator and GPU
kernels.
"""
