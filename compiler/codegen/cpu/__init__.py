"""The CPU target: scheduled loop programs to LLVM IR, machine code and callable kernels."""
