"""What compilation hands to execution and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vdla.isa.program import Program

from ..graph.graph import Graph
from ..graph.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One fused group of the network, as reports show it.

    `roofline_cycles` is max(multiplies / peak, compulsory bytes / bus bytes) of the ONNX convolution or matrix
    product in it (0 for other operators), before fusion; `bound` says which of the two it is.
    """

    name: str
    op: str
    members: tuple[str, ...]
    macs: int
    roofline_cycles: float
    bound: Literal["compute", "memory"]
    compulsory_bytes: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """A compiled network: the program, the fused graph it computes, and where its tensors lie.

    `addresses` and `sizes` are in bytes of the program's image, by tensor name.
    """

    program: Program
    graph: Graph
    layouts: Mapping[str, Layout]
    addresses: Mapping[str, int]
    sizes: Mapping[str, int]
    layers: tuple[Layer, ...]
    virtual_threads: int
    compile_seconds: float
