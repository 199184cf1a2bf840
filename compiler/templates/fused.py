"""Grafting of operators that the graph fused with an operator onto the operator's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..graph.graph import Graph, Node, Tensor
from ..ir.expr import Expr
from ..ir.stmt import Program
from ..te.fusion import operand_buffer, with_data, with_result
from ..te.merge import Shape, spread


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A program with fused operators; `tensors` and `constants` bind the parameters that fusion added, by name."""

    program: Program
    tensors: dict[str, str] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def fused(
    graph: Graph,
    node: Node,
    program: Program,
    *,
    statements: Sequence[str] = (),
    inside: Callable[[tuple[Expr, ...]], Expr] | None = None,
) -> Fused:
    """The operator's program with the fused `node.data` and `node.result`; arguments as in `te.fusion.with_result`.

    With `data`, the program's first parameter is replaced. Without fused operators, `program` itself.
    """
    tensors: dict[str, str] = {}
    constants: dict[str, np.ndarray] = {}

    def bind(body: Expr, full: Shape, block: int, into: Shape) -> dict[int, Shape]:
        shapes: dict[int, Shape] = {}
        for i in node.operands(body):
            tensor = graph.tensors[node.inputs[i]]
            shapes[i] = spread(storage_beside(tensor, len(full), block), full, into)
            parameter = operand_buffer(i, shapes[i]).name
            if tensor.name in graph.constants:
                constants[parameter] = graph.constants[tensor.name].reshape(shapes[i])
            else:
                tensors[parameter] = tensor.name
        return shapes

    if node.data is not None:
        block = graph.tensors[node.output].block
        data = Tensor(name="data", shape=graph.data_shape(node), block=block)
        shapes = bind(node.data, data.storage, block, program.parameters[0].shape)
        program = with_data(program, node.data, shapes)
    if node.result is not None:
        out = graph.tensors[node.output]
        shapes = bind(node.result, out.storage, out.block, program.parameters[-1].shape)
        program = with_result(program, node.result, shapes, statements=statements, inside=inside)
    return Fused(program=program, tensors=tensors, constants=constants)


def storage_beside(tensor: Tensor, rank: int, block: int) -> Shape:
    """The shape with which a tensor broadcasts against a storage of `rank` dimensions, blocked by channels or plain."""
    if block == 1 or tensor.block > 1:
        return tensor.storage
    # Equal for all channels: one lane serves all.
    return (*(1,) * (rank - 1 - len(tensor.shape)), *tensor.shape, 1)


def shapes_beside(graph: Graph, node: Node, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes of the tensors from which the data and the result of a reduction over `axes` are computed, with the
    rank of its input.
    """
    shapes = [graph.tensors[node.inputs[i]].shape for i in node.operands(node.data)]
    rank = len(graph.data_shape(node))
    kept = [axis for axis in range(rank) if axis not in axes]
    out = graph.tensors[node.output].shape
    for i in node.operands(node.result):
        shape = graph.tensors[node.inputs[i]].shape
        aligned = (1,) * (len(out) - len(shape)) + shape
        if len(out) < rank:
            sizes = dict(zip(kept, aligned, strict=True))
            aligned = tuple([sizes.get(axis, 1) for axis in range(rank)])
        shapes.append(aligned)
    return shapes
