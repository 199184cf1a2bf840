"""NVIDIA GPUs: from scheduled loop programs in kernel form to CUDA C++, cubins and launches."""
