"""Makes the program of a graph node: the operator's program, with the operators that the graph fused with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..graph.graph import Graph, Node, Tensor
from ..ir.expr import Expr
from ..ir.stmt import Program
from ..te.fusion import operand_buffer, with_data, with_result
from ..te.merge import Shape, spread
from .expressions import Expression, storage_beside


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A program with fused operators. `tensors` and `constants` give, for each parameter that fusion added, the name of
    its tensor or its array.
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
    """The operator's `program`, with the operators that the graph fused before it (`node.data`) and after it
    (`node.result`) grafted in.

    Operators fused before it replace the program's first parameter. `statements`, `inside`: the statements that store
    results, and the condition for an element not to be stored as zero (`te.fusion.with_result`).
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


def fused_expression(
    graph: Graph, node: Node, expression: Expression, own: Sequence[str] | None = None
) -> tuple[Fused, dict[str, str]]:
    """A node's expression with its fused operators, and the names of the tensors bound to its parameters, by parameter.

    `own`: the tensors of the operator's own parameters (None: `node.own_inputs`).
    """
    program = expression.program
    names = [p.name for p in program.parameters if p.name not in expression.arrays]
    inputs, outputs = names[: -len(node.outputs)], names[-len(node.outputs) :]
    own = node.own_inputs if own is None else own
    given = zip(inputs, own, strict=True) if node.data is None else ()
    ends = fused(graph, node, program, statements=expression.statements, inside=expression.inside)
    return ends, {**dict(given), **dict(zip(outputs, node.outputs, strict=True))}
