"""Where the tensors of a float graph lie: one arena, whose bytes serve tensors that are not alive together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vdla.util.printable import printable

from ..budgets import check_arena
from ..memory_plan import Buffer, plan_memory
from .graph import FloatGraph
from .operators import Join, Reshape

ALIGNMENT = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """Byte offsets of all tensors but constants, the arena's bytes, and those it would have without reuse.

    Views lie where the tensor lies that they look at.
    """

    offsets: Mapping[str, int]
    bytes: int
    bytes_without_reuse: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor that lies in another one, which is no view, from byte `start` on."""

    root: str
    start: int


def find_views(graph: FloatGraph) -> dict[str, View]:
    """The views among the tensors, by name: those of `Reshape`, and what a `Join` joins."""
    views: dict[str, View] = {}
    for node in graph.nodes:
        if isinstance(node.operator, Reshape):
            source = graph.tensors[node.inputs[0]]
            views[node.output] = View(root=source.name, start=node.operator.offset * source.dtype.bits // 8)

    def root(name: str) -> View:
        start = 0
        while (view := views.get(name)) is not None:
            name, start = view.root, start + view.start
        return View(root=name, start=start)

    for node in graph.nodes:
        if not isinstance(node.operator, Join):
            continue
        if not node.operator.holds:
            views[node.output] = View(root=node.inputs[0], start=0)
            continue
        start = 0
        for name in node.inputs:
            views[root(name).root] = View(root=node.output, start=start)
            start += graph.tensors[name].bytes
    return {name: root(name) for name in views}


def plan_storage(graph: FloatGraph) -> StoragePlan:
    """Plans a graph with layouts. Node i is step i; it reads while it writes.

    Inputs live from before the first step, outputs until after the last.
    """
    views = find_views(graph)

    def root(name: str) -> str:
        return views[name].root if name in views else name

    lives: dict[str, tuple[int, int]] = dict.fromkeys(graph.inputs, (-1, -1))
    for step, node in enumerate(graph.nodes):
        for name in node.inputs:
            if name not in graph.constants:
                lives[root(name)] = (lives[root(name)][0], step)
        if not isinstance(node.operator, Reshape | Join):
            for name in node.outputs:
                # What holds joined tensors lives from the first of them on.
                lives[root(name)] = (lives.get(root(name), (step, step))[0], step)
    for output in graph.outputs:
        if output.tensor not in graph.constants:
            lives[root(output.tensor)] = (lives[root(output.tensor)][0], len(graph.nodes))
    return _plan(graph, lives, views)


def plan_steps(graph: FloatGraph, accesses: Sequence[Sequence[str]]) -> StoragePlan:
    """The same for a network without nodes, whose step i reads and writes the tensors `accesses`[i]."""
    lives: dict[str, tuple[int, int]] = dict.fromkeys(graph.inputs, (-1, -1))
    for step, names in enumerate(accesses):
        for name in names:
            lives[name] = (lives.get(name, (step, step))[0], step)
    for output in graph.outputs:
        if output.tensor not in graph.constants:
            lives[output.tensor] = (lives[output.tensor][0], len(accesses))
    return _plan(graph, lives, {})


def _plan(graph: FloatGraph, lives: Mapping[str, tuple[int, int]], views: Mapping[str, View]) -> StoragePlan:
    """Places of tensors with their first and last steps, and of views of them."""
    buffers = [
        Buffer(name=name, size=graph.tensors[name].bytes, first=first, last=last)
        for name, (first, last) in lives.items()
    ]
    plan = plan_memory(buffers, alignment=ALIGNMENT)
    offsets = dict(plan.offsets)
    offsets.update({name: offsets[view.root] + view.start for name, view in views.items()})
    rounded = sum(-(-buffer.size // ALIGNMENT) * ALIGNMENT for buffer in buffers)
    return StoragePlan(offsets=offsets, bytes=plan.size, bytes_without_reuse=rounded)


def check_plan(label: str, graph: FloatGraph, plan: StoragePlan) -> None:
    """Raises ModelError where the activations of a model take more bytes than `budgets` allows."""
    check_arena(
        label,
        plan.bytes,
        {name: graph.tensors[name].bytes for name in plan.offsets},
        {name: node.name for node in graph.nodes for name in node.outputs},
    )


def format_plan(graph: FloatGraph, plan: StoragePlan) -> str:
    """One line a tensor in the order of addresses; tensors that share bytes are not alive together, or are views."""
    lines = [f"arena of {plan.bytes} bytes, {plan.bytes_without_reuse} without reuse"]
    for name, offset in sorted(plan.offsets.items(), key=lambda item: item[1]):
        tensor = graph.tensors[name]
        lines.append(
            f"  {offset:>10} to {offset + tensor.bytes:>10}  {name}: {tensor.dtype}{list(tensor.shape)}"
        )
    return "\n".join(printable(line, None) for line in lines) + "\n"
