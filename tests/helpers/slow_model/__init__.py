"""The timing contract (hw/README.md), one cycle at a time, written down plainly: what the fast simulator is held to.

Every unit looks only at what was registered in earlier cycles: all comparisons between units are `< now`. Nothing
here is shared with `vdla.sim`; programs must be small.
"""

from .counters import counters
from .model import Model
from .run import run

__all__ = ["Model", "counters", "run"]
