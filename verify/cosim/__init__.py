"""Co-simulation: runs the same programs on the simulator and on the Verilated RTL and compares all their results."""
