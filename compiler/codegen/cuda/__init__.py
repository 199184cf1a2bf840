"""NVIDIA GPUs: from scheduled loop programs (all work inside loops over blocks) to CUDA C++, cubins and launches."""
