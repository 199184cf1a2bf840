"""Effectiveness of co-simulation in finding mistakes: mutations of the netlist, and faults in RTL and simulator."""
