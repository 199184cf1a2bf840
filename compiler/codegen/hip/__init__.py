"""HIP C++: a dialect of the GPU kernels printed by `codegen.cuda`, as text for AMD's compiler. Nothing here runs it."""
