"""The compiler: ONNX models and scheduled tensor expressions become code for the accelerator, processors and GPUs."""

VIRTUAL_THREADS = 2
"""Default number of virtual threads of a program for the accelerator. This is the number of copies of each scratchpad
buffer, with which loads, computation and stores overlap (double buffering). With 1 they do not overlap.
"""
