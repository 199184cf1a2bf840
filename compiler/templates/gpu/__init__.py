"""Templates of GPUs: tensor expressions put into kernel form, with knobs and defaults for any shape."""
