"""OpenCL C: a second dialect of the GPU kernels that `target.cuda` prints, for devices of any maker."""
