"""Area, clock and netlist of the RTL in the standard cells of any Liberty file, module by module."""
