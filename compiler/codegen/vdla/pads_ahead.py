"""Which pads in the chain memory are written a layer early: the store unit may have time then, and later has none.

A layer that expands channels stores as fast as the array computes, and the pads of what it stores come on top. The
layer before it, which reduces them, stores little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from ...graph.graph import Graph
from ...graph.memory_plan import lifetimes
from ...ir.expr import Buffer
from ...ir.stmt import Intrinsic, Program
from ...ir.visit import walk
from ...schedule.legality import written
from .placement import ChainBuffer

if TYPE_CHECKING:
    from .link import LoweredLayer

Padded = tuple[Buffer, ChainBuffer]
"""A tensor in the chain memory, and where."""


def padded_outputs(program: Program, places: Mapping[str, object]) -> Iterator[Padded]:
    """What a kernel writes in the chain memory."""
    names = written(program)
    for buffer in program.parameters:
        if buffer.name in names and isinstance(place := places.get(buffer.name), ChainBuffer):
            yield buffer, place


def pads_ahead(
    graph: Graph, layers: Sequence[LoweredLayer], chained: Mapping[str, ChainBuffer]
) -> list[tuple[Padded, ...]]:
    """For each layer those of the next one's outputs whose place no tensor has that lives while it runs.

    Layers are the graph's nodes. None for a layer whose last kernel stores nothing by STORE.POST, and none at all where
    others than tensors lie in the chain memory.
    """
    none: list[tuple[Padded, ...]] = [() for _ in layers]
    lives = lifetimes(graph)
    if not chained or not chained.keys() <= lives.keys() or len(layers) != len(graph.nodes):
        return none
    outputs = [list(_outputs(layer, chained)) for layer in layers]
    # By tensor, not by place: tensors of different sizes may begin at the same one.
    ends: dict[str, int] = {}
    for tensor, (buffer, place) in (output for of in outputs for output in of):
        ends[tensor] = max(ends.get(tensor, 0), place.address + prod(buffer.shape))
    for step, layer in enumerate(layers[:-1]):
        alive = [name for name in chained if lives[name][0] <= step <= lives[name][1]]
        if _stores(layer) and ends.keys() >= set(alive):
            none[step] = tuple(
                [
                    padded
                    for tensor, padded in outputs[step + 1]
                    if any(padded[1].margins)
                    and all(
                        ends[tensor] <= chained[other].address or ends[other] <= padded[1].address
                        for other in alive
                    )
                ]
            )
    return none


def _outputs(layer: LoweredLayer, chained: Mapping[str, ChainBuffer]) -> Iterator[tuple[str, Padded]]:
    """What a layer writes in the chain memory, with the tensor's name."""
    for kernel in layer.kernels:
        places = {name: chained.get(tensor) for name, tensor in kernel.tensors.items()}
        for padded in padded_outputs(kernel.kernel, places):
            yield kernel.tensors[padded[0].name], padded


def _stores(layer: LoweredLayer) -> bool:
    return bool(layer.kernels) and any(
        isinstance(node, Intrinsic) and node.declaration.name in ("post", "post_rows")
        for node in walk(layer.kernels[-1].kernel)
    )
