"""Layers chained on the chip: the choice of tensors that are in the chain memory instead of DRAM, and their places.

The store unit writes a chained tensor to the chain memory, with the pads of its readers, and the array reads it from
there. This needs no bus traffic, and no load has to wait for a store. A tensor can be chained if one kernel produces
it, only convolutions read it, with equal pads, and it fits beside the other live tensors. Tensors that save most
traffic are placed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from vdla.isa.config import Config

from ...codegen.vdla.placement import ChainBuffer
from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...graph.int8_operators import Attention
from ...graph.layout import blocked_shape
from ...graph.memory_plan import Buffer, lifetimes, plan_memory
from ...te.blocks import Pads
from .attention_kernels import kept_places
from .conv2d import CONV2D
from .depthwise import DEPTHWISE_CONV2D, widened
from .template import Kernel, Source, template_of

Kernels = Mapping[str, tuple[Kernel, ...]]
UNPADDED: Pads = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A tensor that may be placed in the chain memory (on-chip memory for tensors between layers): its pads (`margins`)
    and the value of the pads, its bytes in the chain memory (`size`), and the bytes of bus traffic that this placement
    saves.
    """

    margins: Pads
    pad_value: int
    size: int
    saved: int


def chain_layers(config: Config, graph: Graph, kernels: Kernels) -> tuple[Kernels, Mapping[str, ChainBuffer]]:
    """Chooses the tensors that are placed in the chain memory (on-chip memory for tensors between layers). Returns the
    kernels, changed to read and write these tensors there, and the tensors' places.
    """
    places = _allocate(config, graph, _candidates(config, graph, kernels))
    for node in graph.nodes:
        if isinstance(node.operator, Attention):
            places = {**places, **kept_places(config, node)}
    return {name: tuple([_chained(kernel, places) for kernel in of]) for name, of in kernels.items()}, places


def _chained(kernel: Kernel, places: Mapping[str, ChainBuffer]) -> Kernel:
    """The kernel, changed to read its input and write its output in the chain memory (on-chip memory for tensors
    between layers) if `places` has them.
    """
    read, written = (places.get(kernel.tensors.get(name, "")) for name in ("X", "Y"))
    if (read is None and written is None) or not isinstance(kernel.source, Source):
        return kernel
    margins = None if written is None else written.margins
    workload = replace(kernel.workload, resident=read is not None, margins=margins)
    return replace(kernel, workload=workload, source=replace(kernel.source, workload=workload))


def _candidates(config: Config, graph: Graph, kernels: Kernels) -> dict[str, _Candidate]:
    readers = graph.readers()
    outputs = {item.tensor for item in graph.outputs}
    found: dict[str, _Candidate] = {}
    for maker in graph.nodes:
        name = maker.output
        if name in outputs or name not in readers or _keeper(kernels[maker.name]) is None:
            continue
        candidate = _candidate(config, graph, name, readers[name], kernels)
        if candidate is None or (any(candidate.margins) and len(maker.inputs) > 1):
            continue  # a residual operand has the output's layout, so the output can have no pads
        found[name] = candidate
    return found


def _keeper(kernels: Sequence[Kernel]) -> Kernel | None:
    """A node's only kernel, if it can write to the chain memory (on-chip memory between layers); else None."""
    if not kernels:
        return None
    kernel, source = kernels[0], kernels[0].source
    if len(kernels) > 1 or kernel.offsets or not isinstance(source, Source):
        return None
    whole = (
        source.workload == kernel.workload and source.details.area is None and source.details.spread is None
    )
    return kernel if whole and kernel.workload.template in CHAINING else None


def _candidate(
    config: Config, graph: Graph, name: str, readers: Sequence[Node], kernels: Kernels
) -> _Candidate | None:
    pads: set[tuple[Pads, int]] = set()
    for node in readers:
        kernel = _keeper(kernels[node.name])
        operator = node.operator
        if kernel is None or not isinstance(operator, Int8Convolution) or operator.pool is not None:
            return None
        if name in node.inputs[1:]:
            return None
        if not template_of(kernel.workload).fits(config, replace(kernel.workload, resident=True)):
            return None
        padded = any(kernel.workload.pads)
        margins = operator.window.pads
        if kernel.workload.template == DEPTHWISE_CONV2D.name:
            margins = widened(config, kernel.workload).pads
            padded = any(margins)
        pads.add((margins if padded else UNPADDED, operator.pad_value if padded else 0))
    if len(pads) > 1:
        return None
    ((margins, pad_value),) = pads
    shape = blocked_shape(config, graph.tensors[name].nchw)
    top, left, bottom, right = margins
    around = (*shape[:2], shape[2] + top + bottom, shape[3] + left + right, *shape[4:])
    return _Candidate(
        margins=margins,
        pad_value=pad_value,
        size=prod(around),
        saved=prod(shape) * (1 + len(readers)),
    )


def _allocate(config: Config, graph: Graph, candidates: Mapping[str, _Candidate]) -> dict[str, ChainBuffer]:
    """Places, by tensor name, of tensors in the chain memory (on-chip memory for tensors between layers). Candidates
    are tried in the order of the traffic that they save; each is placed if it fits beside all tensors that were placed
    before.
    """
    lives, word = lifetimes(graph), max(config.inp_bytes, config.out_bytes)
    # An attention kernel uses the whole chain memory: tensors that live during it cannot be placed.
    chosen = [
        Buffer(name=node.name, size=config.chain_buffer_bytes, first=step, last=step)
        for step, node in enumerate(graph.nodes)
        if isinstance(node.operator, Attention)
    ]
    offsets: Mapping[str, int] = {}
    for name, candidate in sorted(candidates.items(), key=lambda item: (-item[1].saved, item[0])):
        first, last = lives[name]
        more = [*chosen, Buffer(name=name, size=candidate.size, first=first, last=last)]
        plan = plan_memory(more, alignment=word)
        if plan.size <= config.chain_buffer_bytes:
            chosen, offsets = more, plan.offsets
    # Pads can be written one layer early if their place is free by then: try a lifetime that begins a step earlier.
    for index, buffer in enumerate(chosen):
        if buffer.name in candidates and any(candidates[buffer.name].margins):
            more = [*chosen]
            more[index] = replace(buffer, first=buffer.first - 1)
            plan = plan_memory(more, alignment=word)
            if plan.size <= config.chain_buffer_bytes:
                chosen, offsets = more, plan.offsets
    return {
        name: ChainBuffer(offsets[name], candidate.margins, candidate.pad_value)
        for name, candidate in candidates.items()
        if name in offsets
    }


CHAINING = frozenset({CONV2D.name, DEPTHWISE_CONV2D.name})
"""Templates that can read their input and write their output in the chain memory (on-chip memory for tensors between
layers).
"""
