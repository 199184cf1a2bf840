"""The compiler: ONNX models and scheduled tensor expressions become code for the accelerator, processors and GPUs."""

VIRTUAL_THREADS = 2
"""Default number of virtual threads of a program for the accelerator: copies of each scratchpad buffer, so that loads,
computation and stores overlap (double buffering). 1: no overlap.
"""
