"""Tensor expressions: the computations of layers as plain programs of the loop IR, before any schedule."""
