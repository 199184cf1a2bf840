"""WGSL: a third dialect of the GPU kernels printed by `codegen.cuda`, for Vulkan, Metal and DirectX."""
