"""Programs on the Verilated RTL: a memory model in C++ (hw/README.md section 1), driven by ctypes."""
