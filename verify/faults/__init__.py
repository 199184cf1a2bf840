"""Measures which mistakes co-simulation finds: mutations of the netlist, and faults in RTL, simulator and
GPU kernels.
"""
