"""What can be compiled for: each target is a value with its memories, intrinsics and pipeline."""
