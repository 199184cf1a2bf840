"""Runs programs on the Verilated RTL with a memory model in C++ (hw/README.md section 1), called by ctypes."""
