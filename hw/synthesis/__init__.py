"""Synthesis of the generated Verilog by Yosys and nextpnr: resources of every unit, clock on ECP5, lint."""
