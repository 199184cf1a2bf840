"""Code generators for the accelerator, processors, CUDA and OpenCL: each has its memories and intrinsics."""
