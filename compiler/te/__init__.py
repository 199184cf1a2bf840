"""Tensor expressions: what a layer computes, as plain programs of the loop IR, before any schedule."""
