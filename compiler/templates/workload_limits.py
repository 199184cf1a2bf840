"""Limits on workloads read from files, for all targets, and the error for invalid ones."""

from __future__ import annotations

from vdla.util.errors import UserError

MOST_SIZE = 1 << 24
"""Largest batch, and largest number of channels or filters."""
MOST_POSITIONS = 1 << 20
"""Largest height and width of an image: knob axes enumerate them."""
MOST_STEP = 1 << 16
"""Largest kernel size, stride, pad and dilation of a window."""
MOST_ELEMENTS = 1 << 31
"""Largest number of elements of a tensor, as in `ir.program_json`; numbers of multiplications then fit in 64 bits."""


class WorkloadError(UserError):
    """Raised for an invalid description of a workload."""
