"""Co-simulation: the same programs on the simulator and on the Verilated RTL, everything that both know compared."""
