"""Measures how well co-simulation finds mistakes: mutations of the netlist, and faults put into RTL and simulator."""
