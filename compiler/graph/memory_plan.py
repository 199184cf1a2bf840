"""Static memory planning for the tensors of a graph, on every target: chooses byte offsets in one block of memory
(arena) for buffers whose lifetimes are known.

Buffers are placed largest first, each into the smallest gap that is free for the buffer's whole life (best fit). Of two
buffers of equal size, the buffer whose life begins earlier is placed first. If the lives begin together, the order of
names decides, so equal input gives equal output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .graph import Graph
from .operators import Join, Reshape


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """`size` bytes that hold data from step `first` to step `last`, both inclusive."""

    name: str
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Byte offset of every buffer in the arena (one block of memory), and the bytes that the arena needs."""

    offsets: Mapping[str, int]
    size: int


def lifetimes(graph: Graph, root: Callable[[str], str] = lambda name: name) -> dict[str, tuple[int, int]]:
    """First and last step of every tensor that is not a constant; node i is step i.

    Graph inputs live from step -1, graph outputs to step len(nodes). The lives of a node's inputs and outputs overlap,
    since the node reads while it writes. `root`: maps a view to the tensor whose memory it uses; this tensor lives at
    least as long as the view.
    """
    lives = {entry.tensor: (-1, -1) for entry in graph.inputs}
    for step, node in enumerate(graph.nodes):
        for name in node.inputs:
            if name not in graph.constants:
                lives[root(name)] = (lives[root(name)][0], step)
        if not isinstance(node.operator, Reshape | Join):
            for name in node.outputs:
                # The result of a Join lives from the first of the joined tensors on.
                lives[root(name)] = (lives.get(root(name), (step, step))[0], step)
    for output in graph.outputs:
        if output.tensor not in graph.constants:
            lives[root(output.tensor)] = (lives[root(output.tensor)][0], len(graph.nodes))
    return lives


def least_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """The least memory of a graph whose inputs and outputs have memory of their own: the bytes of all inputs and
    outputs, plus the largest sum of other tensors alive at one step. Constants do not count. `sizes`: bytes by tensor.
    """
    lives = lifetimes(graph)
    ends = {item.tensor for item in (*graph.inputs, *graph.outputs)}
    steps: Counter[int] = Counter()
    for name, (first, last) in lives.items():
        if name not in ends:
            steps[first] += sizes[name]
            steps[last + 1] -= sizes[name]
    live = most = 0
    for step in sorted(steps):
        live += steps[step]
        most = max(most, live)
    return most + sum(sizes[name] for name in ends)


def plan_memory(buffers: Iterable[Buffer], *, alignment: int = 1) -> MemoryPlan:
    """Places buffers so that buffers that are alive at a common step never overlap. Offsets are multiples of
    `alignment`.

    Raises ValueError for two buffers of one name, a negative size, a life that ends before it starts, or an alignment
    below 1.
    """
    if alignment < 1:
        raise ValueError(f"alignment {alignment} is below 1")
    pending = sorted(buffers, key=lambda buffer: (-buffer.size, buffer.first, buffer.name))
    if len({buffer.name for buffer in pending}) != len(pending):
        raise ValueError("two buffers have the same name")
    placed: list[tuple[int, Buffer]] = []
    offsets: dict[str, int] = {}
    for buffer in pending:
        if buffer.size < 0 or buffer.last < buffer.first:
            raise ValueError(
                f"buffer '{buffer.name}' must have a size of at least 0 bytes, not {buffer.size}, and its first use "
                f"({buffer.first}) must not come after its last ({buffer.last})"
            )
        offset = _best_fit(buffer, placed, alignment)
        offsets[buffer.name] = offset
        placed.append((offset, buffer))
    return MemoryPlan(offsets=offsets, size=max((at + buffer.size for at, buffer in placed), default=0))


def _best_fit(buffer: Buffer, placed: list[tuple[int, Buffer]], alignment: int) -> int:
    """Offset of the smallest gap in which `buffer` fits, between those `placed` buffers that are alive together with
    it. If no gap is large enough, the offset after the last of these buffers.
    """
    neighbours = sorted(
        (offset, offset + other.size)
        for offset, other in placed
        if other.size and other.first <= buffer.last and buffer.first <= other.last
    )
    best: tuple[int, int] | None = None
    end = 0
    for low, high in neighbours:
        if low - end >= buffer.size and (best is None or low - end < best[0]):
            best = (low - end, end)
        end = max(end, -(-high // alignment) * alignment)
    return end if best is None else best[1]
