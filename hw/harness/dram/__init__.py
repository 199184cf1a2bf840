"""LiteDRAM, the oracle of the DRAM's timing: its Verilog, and runs of it in Verilator."""
