"""Two oracles of a DRAM's timing: LiteDRAM's RTL, generated as Verilog and run in Verilator, and a model in C++ of
LiteDRAM's controller, which needs g++ alone.
"""
