"""Maps the RTL to the standard cells of any Liberty file, module by module: area, clock and netlist."""
