"""Templates of GPUs: tensor expressions put into kernel form (all work inside loops over GPU blocks), with knobs and
defaults for any shape.
"""
