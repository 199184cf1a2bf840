"""What compilation hands to execution and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.isa.program import Program

from ..graph.graph import Graph
from ..graph.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """A compiled network: the program, the fused graph it computes, and where its tensors lie.

    `addresses` and `sizes` are in bytes of the program's image, by tensor name. Without `data` that image has zeros in
    place of constants, and the program serves timing alone. Tensors that are `chained` lie in the chain memory and have
    no address. Constants that are `apart` belong at these addresses, and the image has zeros there: uint8 arrays, which
    programs for other sizes of the same network share.
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
