"""Makes the program of a graph node: the operator's program, with the operators that the graph fused with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..graph.graph import Graph, Node, Tensor
from ..ir.expr import Expr, cast
from ..ir.stmt import Program
from ..ir.types import HALVES, DType
from ..te.fusion import operand_buffer, with_data, with_result
from ..te.merge import Shape, spread
from ..te.scalars import argument
from .expressions import Expression, storage_beside


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A program with fused operators. Two mappings bind the parameters that the fusion added: `tensors` maps a
    parameter to the name of a tensor of the graph, `constants` maps a parameter to an array.
    """

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
    """Inserts into an operator's `program` the operators that the graph fused before it (`node.data`) and after it
    (`node.result`).

    Operators fused before it replace the program's first parameter. A 16-bit tensor that the program reads as float32
    is cast where it is read. `statements`: the statements that store results. `inside`: a condition on indices;
    elements for which it is false are stored as zero (`te.fusion.with_result`).
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

    read = node.data
    if read is None and node.inputs and program.parameters[0].dtype is DType.FLOAT32:
        held = graph.tensors[node.inputs[0]].dtype
        read = argument(0, held) if held in HALVES else None
    if read is not None:
        block = graph.tensors[node.output].block
        data = Tensor(name="data", shape=graph.data_shape(node), block=block)
        x = program.parameters[0]
        program = with_data(program, cast(read, x.dtype), bind(read, data.storage, block, x.shape))
    if node.result is not None:
        out = graph.tensors[node.output]
        shapes = bind(node.result, out.storage, out.block, program.parameters[-1].shape)
        program = with_result(program, node.result, shapes, statements=statements, inside=inside)
    return Fused(program=program, tensors=tensors, constants=constants)


def fused_expression(
    graph: Graph, node: Node, expression: Expression, own: Sequence[str] | None = None
) -> tuple[Fused, dict[str, str]]:
    """The tensor expression of a node together with its fused operators. Also returns, for each parameter that fusion
    did not add, the name of the bound tensor.

    `own`: tensors of the parameters that the operator has without fusion (None: `node.own_inputs`).
    """
    program = expression.program
    names = [p.name for p in program.parameters if p.name not in expression.arrays]
    inputs, outputs = names[: -len(node.outputs)], names[-len(node.outputs) :]
    own = node.own_inputs if own is None else own
    given = dict(zip(inputs, own, strict=True)) if node.data is None else {}
    ends = fused(graph, node, program, statements=expression.statements, inside=expression.inside)
    if inputs and inputs[0] not in [p.name for p in ends.program.parameters]:
        given.pop(inputs[0], None)
    return ends, {**given, **dict(zip(outputs, node.outputs, strict=True))}
