"""The compute unit: matrix array, accumulators, vector ALU and the control that begins and ends its instructions."""

from .unit import ComputeUnit

__all__ = ["ComputeUnit"]
