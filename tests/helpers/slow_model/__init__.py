"""A simple cycle-by-cycle model of the timing contract (hw/README.md), with which the fast simulator is compared.

A unit never sees what another unit does in the same cycle, but only events of earlier cycles. No code is shared with
`vdla.sim`; programs must be small.
"""

from .counters import counters
from .model import Model
from .run import run

__all__ = ["Model", "counters", "run"]
