"""LiteDRAM, the oracle of the DRAM's timing: generates LiteDRAM's Verilog, and runs the Verilog in Verilator."""
