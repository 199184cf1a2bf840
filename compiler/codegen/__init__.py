"""Code generators for the accelerator, processors, CUDA, OpenCL and WGSL; each has its own memories and intrinsics."""
