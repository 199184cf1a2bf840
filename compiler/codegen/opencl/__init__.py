"""OpenCL C: a second dialect of the GPU kernels printed by `codegen.cuda`, for devices of any vendor."""
