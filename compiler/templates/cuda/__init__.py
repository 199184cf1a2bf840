"""Templates of NVIDIA GPUs: tensor expressions of operators put into kernel form, with knobs and defaults for any shape."""
