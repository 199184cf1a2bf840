"""The compute unit: matrix array, accumulators, vector ALU, and the control that begins and ends instructions."""

from .unit import ComputeUnit

__all__ = ["ComputeUnit"]
