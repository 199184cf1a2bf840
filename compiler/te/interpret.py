"""The interpreter of loop programs with the scalar functions that tensor expressions call."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir.interp import interpret as run
from ..ir.stmt import Program
from .functions import FUNCTIONS


def interpret(
    program: Program, arrays: Mapping[str, np.ndarray], *, poison: bool = False
) -> dict[str, np.ndarray]:
    """Runs `program`, slowly, and returns every parameter's contents by name; `arrays` are not changed.

    Parameters without an array start as zeros. With `poison`, reading unwritten elements of such a parameter or of an
    allocation is an error. Raises InterpretError for an index out of bounds and for an array of the wrong shape or
    dtype.
    """
    return run(program, arrays, functions=FUNCTIONS, poison=poison)
