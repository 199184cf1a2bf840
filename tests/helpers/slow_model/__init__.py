"""A simple cycle-by-cycle model of the timing contract (hw/README.md), with which the fast simulator is compared.

Every unit reads only values registered in earlier cycles: all comparisons between units are `< now`. No code is shared
with `vdla.sim`; programs must be small.
"""

from .counters import counters
from .model import Model
from .run import run

__all__ = ["Model", "counters", "run"]
