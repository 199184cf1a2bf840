"""The result of compiling a network for the accelerator (`Compiled`), for execution and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..graph.graph import Graph
from ..graph.layout import Layout

if TYPE_CHECKING:
    from vdla.isa.program import Program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """A compiled network: the program, the fused graph it computes, and the addresses of its tensors.

    `addresses` and `sizes` are in bytes of the program's image, by tensor name. Without `data` the image has zeros in
    place of constants, and the program can only be timed. `chained` tensors are in the chain memory (on-chip memory for
    tensors between layers) and have no address. `apart`: (address, uint8 array) of constants for which the image has
    zeros; programs for other sizes of the same network share these arrays. `virtual_threads`: number of copies of each
    scratchpad buffer; with several copies, loads and computation overlap.
    """

    program: Program
    graph: Graph
    layouts: Mapping[str, Layout]
    addresses: Mapping[str, int]
    sizes: Mapping[str, int]
    virtual_threads: int
    compile_seconds: float
    chained: frozenset[str] = frozenset()
    data: bool = True
    apart: tuple[tuple[int, np.ndarray], ...] = ()
