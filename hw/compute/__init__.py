"""The compute unit: matrix array, accumulators, vector ALU, and control, which begins and ends instructions."""

from .unit import ComputeUnit

__all__ = ["ComputeUnit"]
