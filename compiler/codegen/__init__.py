"""Code generators for the accelerator, processors, CUDA and OpenCL; each has its own memories and intrinsics."""
