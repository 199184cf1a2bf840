"""Chooses the pads that are written to the chain memory one layer early, when the store unit may be idle. The chain
memory is on-chip memory that keeps a layer's output, with the pads around it, for the next layer.

A layer that expands channels keeps the store unit as busy as the array, so pads of its outputs would take additional
time. The preceding layer, which reduces channels, stores little.
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
"""A tensor that a kernel keeps in the chain memory (on-chip memory between layers): the kernel's buffer for the tensor,
and the tensor's location in the chain memory.
"""


def padded_outputs(program: Program, places: Mapping[str, object]) -> Iterator[Padded]:
    """The parameters that a kernel writes to the chain memory (on-chip memory between layers), with their locations
    there. `places`: the location of each parameter, by name.
    """
    names = written(program)
    for buffer in program.parameters:
        if buffer.name in names and isinstance(place := places.get(buffer.name), ChainBuffer):
            yield buffer, place


def pads_ahead(
    graph: Graph, layers: Sequence[LoweredLayer], chained: Mapping[str, ChainBuffer]
) -> list[tuple[Padded, ...]]:
    """For each layer, the outputs of the next layer whose pads may be written early, while the layer runs. These
    outputs are in the chain memory (on-chip memory between layers), at a location that is already free.

    Layers are the graph's nodes. `chained`: location of each tensor in the chain memory, by name. A layer cannot write
    pads early if its last kernel has no STORE.POST; its tuple is then empty. If the chain memory contains anything
    other than tensors of the graph, the tuples of all layers are empty.
    """
    none: list[tuple[Padded, ...]] = [() for _ in layers]
    lives = lifetimes(graph)
    if not chained or not chained.keys() <= lives.keys() or len(layers) != len(graph.nodes):
        return none
    outputs = [list(_outputs(layer, chained)) for layer in layers]
    # Keyed by tensor, not by place: tensors of different sizes may begin at one address.
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
    """The outputs of a layer that are in the chain memory (on-chip memory between layers), as (tensor name, buffer and
    location).
    """
    for kernel in layer.kernels:
        places = {name: chained.get(tensor) for name, tensor in kernel.tensors.items()}
        for padded in padded_outputs(kernel.kernel, places):
            yield kernel.tensors[padded[0].name], padded


def _stores(layer: LoweredLayer) -> bool:
    return bool(layer.kernels) and any(
        isinstance(node, Intrinsic) and node.declaration.name == "post"
        for node in walk(layer.kernels[-1].kernel)
    )
