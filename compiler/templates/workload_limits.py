"""Limits on the workloads that files describe, whatever the target, and the error for what is none."""

from __future__ import annotations

from vdla.util.errors import UserError

MOST_SIZE = 1 << 24
"""Of a batch, channels and filters."""
MOST_POSITIONS = 1 << 20
"""Of an image's rows, and of its columns: the knobs of a space list them all."""
MOST_STEP = 1 << 16
"""Of what a window is made of: kernels, strides, pads and dilations."""
MOST_ELEMENTS = 1 << 31
"""Of a tensor, as `ir.program_json` has it. Products of sums and outputs then fit in 64 bits."""


class WorkloadError(UserError):
    """A description that is no workload."""
