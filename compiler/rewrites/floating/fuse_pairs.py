"""Fuses two nodes of a float graph into one. An element-wise operator is computed in the kernel that computes its
argument, or in the kernel that reads its result.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from ...graph.graph import Graph, Node, Shape
from ...graph.operators import (
    AveragePool,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    Gather,
    MatrixProduct,
    MaxPool,
    Normalization,
    Permute,
    Reduction,
    Remap,
    Resize,
    Softmax,
)
from ...ir.expr import Call, Expr
from ...ir.types import DType
from ...ir.visit import substitute_expr, walk_expr
from ...te.merge import spread
from ...te.scalars import ELEMENT, argument, argument_types

LARGEST_BODY = 64
"""Largest number of nodes in the expression of a fused operator. An operand that is read twice occurs twice in the
expression, so that without a limit expressions might grow exponentially.
"""


def expression_size(expr: Expr) -> int:
    """Number of nodes of an expression."""
    return sum(1 for _ in walk_expr(expr))


def with_result(
    graph: Graph, before: Node, node: Node, stored: Collection[DType] = (DType.FLOAT32,)
) -> Node | None:
    """A node that computes `before` and then the element-wise `node` on its result; None if the two cannot be fused.
    `stored`: dtypes in which float32 kernels can store results.
    """
    operator = node.operator
    assert isinstance(operator, Elementwise)
    shape = graph.tensors[node.output].shape
    if before.more_outputs or _dimensions(before, shape) is None:
        return None
    types = [graph.tensors[name].dtype for name in (before.output, node.output)]
    # The operator itself computes float32; earlier fused steps may have rounded its result.
    if any(t not in stored for t in types) or (before.result is None and types[0] is not DType.FLOAT32):
        return None
    # Only a type that the kernel would not store otherwise is worth a step after a normalization.
    if isinstance(before.operator, Normalization) and types[1] is DType.FLOAT32:
        return None
    others = [name for name in dict.fromkeys(node.inputs) if name != before.output]
    if not all(_fits_result(graph, before, name, shape) for name in others):
        return None
    own = ELEMENT if before.result is None else before.result
    inputs, values = _extended(graph, before, before.result, others)
    values[before.output] = own
    body = substitute_expr(
        operator.body, {argument(i).name: values[name] for i, name in enumerate(node.inputs)}
    )
    if expression_size(body) > LARGEST_BODY:
        return None
    return replace(
        before,
        members=(*before.members, *node.members),
        inputs=inputs,
        output=node.output,
        result=body,
    )


def inlined(graph: Graph, node: Node, before: Node) -> Node | None:
    """Fuses the element-wise node `before` into its reader `node`: one kernel computes both nodes, and computes each
    element of `before` when `node` reads it. Returns the new node, or None if the two cannot be fused.
    """
    assert isinstance(before.operator, Elementwise)
    shape = graph.tensors[before.output].shape
    positions = [i for i, name in enumerate(node.inputs) if name == before.output]
    if isinstance(node.operator, Elementwise):
        if graph.tensors[node.output].shape != shape:
            return None
        return _renumbered(before, node, positions)
    if len(positions) == 1 and positions[0] in node.operands(node.result):
        out = graph.tensors[node.output].shape
        if shape != out or not all(_fits_result(graph, node, name, out) for name in before.inputs):
            return None
        inputs, body = _with_operand(node, node.result, before, positions[0])
        return with_members(replace(node, inputs=inputs, result=body), before)
    if len(positions) == 1 and positions[0] in node.operands(node.data):
        if shape != graph.data_shape(node) or not _may_compute_data(graph, node, before, shape):
            return None
        inputs, body = _with_operand(node, node.data, before, positions[0])
        return with_members(replace(node, inputs=inputs, data=body), before)
    if positions != [0] or node.data is not None or not _may_compute_data(graph, node, before, shape):
        return None
    names = tuple(dict.fromkeys(before.inputs))
    values = {
        argument(i).name: argument(names.index(name), graph.tensors[name].dtype)
        for i, name in enumerate(before.inputs)
    }
    # The operands of the expression on the result move to positions after the new inputs.
    later = node.operands(node.result)
    moved = {
        argument(i).name: argument(len(names) + n, graph.tensors[node.inputs[i]].dtype)
        for n, i in enumerate(later)
    }
    return with_members(
        replace(
            node,
            inputs=(*names, *[node.inputs[i] for i in later]),
            data=substitute_expr(before.operator.body, values),
            result=None if node.result is None else substitute_expr(node.result, moved),
        ),
        before,
    )


def with_members(node: Node, before: Node) -> Node | None:
    """Adds the fused ONNX nodes (members) of `before` to those of `node`; returns the new node, or None if one of its
    expressions exceeds `LARGEST_BODY`.
    """
    if any(body is not None and expression_size(body) > LARGEST_BODY for body in (node.data, node.result)):
        return None
    return replace(node, members=(*before.members, *node.members))


def _with_operand(node: Node, body: Expr | None, before: Node, position: int) -> tuple[tuple[str, ...], Expr]:
    """Replaces the operand with index `position` in the expression `body` of `node` by the expression of the
    element-wise node `before`. Returns (new inputs, new expression).
    """
    assert isinstance(before.operator, Elementwise) and body is not None
    # The first input of `before` takes the operand's position, the others are appended.
    first, *rest = before.inputs
    inputs = [*node.inputs, *rest]
    inputs[position] = first
    places = [position, *range(len(node.inputs), len(inputs))]
    types = argument_types(before.operator.body)
    values: dict[str, Expr] = {
        argument(i).name: argument(place, types.get(argument(i).name, DType.FLOAT32))
        for i, place in enumerate(places)
    }
    value = substitute_expr(before.operator.body, values)
    return tuple(inputs), substitute_expr(body, {argument(position).name: value})


def _renumbered(before: Node, node: Node, positions: list[int]) -> Node | None:
    """One element-wise node that computes both nodes: the expression of `before` replaces the operands of `node` that
    have the indices `positions`. Returns None if the resulting expression exceeds `LARGEST_BODY`.
    """
    first, second = before.operator, node.operator
    assert isinstance(first, Elementwise) and isinstance(second, Elementwise)
    rest = (name for i, name in enumerate(node.inputs) if i not in positions)
    inputs = tuple(dict.fromkeys((*before.inputs, *rest)))

    def numbered(body: Expr, names: tuple[str, ...]) -> dict[str, Expr]:
        types = argument_types(body)
        return {
            argument(i).name: argument(inputs.index(name), types.get(argument(i).name, DType.FLOAT32))
            for i, name in enumerate(names)
            if name in inputs
        }

    inner = substitute_expr(first.body, numbered(first.body, before.inputs))
    values = numbered(second.body, node.inputs) | {argument(i).name: inner for i in positions}
    body = substitute_expr(second.body, values)
    if expression_size(body) > LARGEST_BODY:
        return None
    return replace(
        node,
        name=before.name,
        members=(*before.members, *node.members),
        operator=Elementwise(body=body),
        inputs=inputs,
    )


def _extended(
    graph: Graph, node: Node, body: Expr | None, names: list[str]
) -> tuple[tuple[str, ...], dict[str, Expr]]:
    """Adds the tensors `names` to a node's inputs; an input that `body` already reads is not repeated. Returns the new
    inputs, and for each of `names` the argument by which the node's expression refers to it.
    """
    inputs = list(node.inputs)
    known: dict[str, Expr] = {
        inputs[i]: argument(i, graph.tensors[inputs[i]].dtype) for i in node.operands(body)
    }
    for name in names:
        if name not in known:
            known[name] = argument(len(inputs), graph.tensors[name].dtype)
            inputs.append(name)
    return tuple(inputs), known


def _fits_result(graph: Graph, node: Node, name: str, shape: Shape) -> bool:
    """Whether a node's kernel can read tensor `name` element by element while it writes the node's result of shape
    `shape`.
    """
    other = graph.tensors[name].shape
    dimensions = _dimensions(node, shape)
    if dimensions is None or len(other) > len(shape) or not _spreads(other, shape, dimensions):
        return False
    if not isinstance(node.operator, Convolution | MaxPool | AveragePool | Resize):
        return True
    # The result may be in blocks of channels: a tensor with values per channel must be available in blocks too.
    aligned = (1,) * (len(shape) - len(other)) + other
    return aligned[1] == 1 or len(other) == len(shape) or name in graph.constants


def _dimensions(node: Node, shape: Shape) -> Shape | None:
    """The loop extents of the kernel that computes the node's result of the given `shape`. If one loop covers several
    dimensions, its extent is their product. Returns None for an operator whose kernel cannot contain an element-wise
    step.
    """
    match node.operator:
        case Convolution():
            return (*shape[:2], prod(shape[2:]))
        case MaxPool() | AveragePool() | Resize():
            return (prod(shape[:2]), *shape[2:])
        case Dense() | MatrixProduct() | Reduction():
            return shape
        case Softmax(axis=axis):
            return (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        case Permute() | Remap() | Gather() | Concatenate() | Normalization():
            return (prod(shape),)
    return None


def _may_compute_data(graph: Graph, node: Node, before: Node, shape: Shape) -> bool:
    """Whether `node` may compute the elements of the element-wise node `before` itself, instead of reading them from
    memory. Two conditions must hold: `node` reads each element about once, and the inputs of `before` broadcast along
    whole loops of the node's kernel. `shape`: shape of the result of `before`.
    """
    assert isinstance(before.operator, Elementwise)
    match node.operator:
        case Reduction():
            return True
        case Softmax(axis=axis):
            if any(isinstance(e, Call) for e in walk_expr(before.operator.body)):
                return False
            dimensions = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        case Permute():
            dimensions = (prod(shape),)
        case Gather(indices=None):
            return False
        case Remap() | Gather():
            if prod(graph.tensors[node.output].shape) > 2 * prod(shape):
                return False
            dimensions = (prod(shape),)
        case MaxPool(window=window) | AveragePool(window=window):
            overlap = any(k > s for k, s in zip(window.kernel, window.strides, strict=True))
            whole = window.kernel == shape[2:]
            if any(window.pads) or window.dilations != (1, 1) or (overlap and not whole):
                return False
            dimensions = (prod(shape[:2]), *shape[2:])
            blocked = all(
                len(graph.tensors[name].shape) == len(shape)
                or name in graph.constants
                or prod(graph.tensors[name].shape) == 1
                for name in before.inputs
            )
            # At least one input has the full shape: its layout gives the block size.
            if not blocked or all(graph.tensors[name].shape != shape for name in before.inputs):
                return False
        case _:
            return False
    return all(_spreads(graph.tensors[name].shape, shape, dimensions) for name in before.inputs)


def _spreads(operand: Shape, full: Shape, into: Shape) -> bool:
    try:
        spread(operand, full, into)
    except ValueError:
        return False
    return True
