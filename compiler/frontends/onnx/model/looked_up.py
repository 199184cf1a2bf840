"""Finds model inputs that a Gather uses as row indices (ids), and the number of rows, so that a run can check the ids.

In ONNX an index outside of the axis is an error. Kernels do not check indices, and read the nearer end instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ....graph.graph import GraphInput, Node, Tensor
from ....graph.operators import Elementwise, Gather, Reshape
from ....ir.types import DType

INTEGERS = (DType.INT32, DType.INT64)


def with_rows(
    inputs: Iterable[GraphInput], nodes: Sequence[Node], tensors: Mapping[str, Tensor]
) -> tuple[GraphInput, ...]:
    """The inputs of a float graph, with the field `rows` set for each integer input that a Gather reads as its indices,
    directly or after a Reshape or a Cast. `rows` is the size of the gathered axis, the least for several Gathers.
    """
    entries = tuple(inputs)
    ids = {entry.name: entry.name for entry in entries if entry.dtype in INTEGERS}
    rows: dict[str, int] = {}
    for node in nodes if ids else ():
        match node.operator:
            case Reshape(offset=0) | Elementwise() if len(node.inputs) == 1 and node.inputs[0] in ids:
                source, made = tensors[node.inputs[0]], tensors[node.output]
                cast = isinstance(node.operator, Elementwise) and source.dtype is not made.dtype
                same = source.size == made.size and (cast or isinstance(node.operator, Reshape))
                if same and made.dtype in INTEGERS:
                    ids[node.output] = ids[node.inputs[0]]
            case Gather(axis=axis, indices=None) if node.inputs[-1] in ids:
                name, size = ids[node.inputs[-1]], tensors[node.inputs[0]].shape[axis]
                rows[name] = min(size, rows.get(name, size))
    return tuple([replace(entry, rows=rows.get(entry.name)) for entry in entries])
