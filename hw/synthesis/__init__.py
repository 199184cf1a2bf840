"""Synthesis of the generated Verilog by Yosys and nextpnr: resources of each unit, clock on ECP5, lint."""
