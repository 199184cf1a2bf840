"""Fusion by operator class: what follows a sum element by element is done before the sum is stored.

The rules are those of the TVM paper (OSDI 2018, section 3): injective operators join each other, and a
complex-out-fusable one (convolution, matrix product) takes the injective ones behind it. All need that nothing else
reads what lies between. A fused node stands where the last of its members stood, so that all its inputs are there.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.expr import Binary, Const, Expr, Var
from ...ir.visit import substitute_expr, walk_expr
from ...te import scalars
from ...te.epilogue import Epilogue
from ...te.scalars import argument
from .graph import FloatGraph, Node
from .operators import Convolution, Dense, Elementwise

LARGEST_BODY = 64
"""Nodes of an expression beyond which operators are not joined: values that are read twice are repeated."""


def fuse(graph: FloatGraph) -> FloatGraph:
    """Joins until nothing joins any more."""
    while True:
        fused = _fuse_once(graph)
        if fused is graph:
            return graph
        graph = fused


def _fuse_once(graph: FloatGraph) -> FloatGraph:
    uses, producers = graph.uses(), graph.producers()
    position = {node.output: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if not isinstance(node.operator, Elementwise):
            continue
        # The latest producer first: of two convolutions that are added, the other one's result waits less long.
        for source in sorted(set(node.inputs), key=lambda name: -position.get(name, -1)):
            before = producers.get(source)
            if before is None or uses[source] != node.inputs.count(source):
                continue
            if graph.tensors[source].shape != graph.tensors[node.output].shape:
                continue
            fused = _joined(graph, before, node)
            if fused is not None:
                nodes = tuple(
                    fused if other is node else other for other in graph.nodes if other is not before
                )
                return replace(graph, nodes=nodes)
    return graph


def _joined(graph: FloatGraph, before: Node, node: Node) -> Node | None:
    match before.operator:
        case Elementwise():
            return _joined_bodies(before, node)
        case Convolution() | Dense():
            return _with_epilogue(graph, before, node)
    return None


def _joined_bodies(before: Node, node: Node) -> Node | None:
    first, second = before.operator, node.operator
    assert isinstance(first, Elementwise) and isinstance(second, Elementwise)
    inputs = list(dict.fromkeys((*before.inputs, *(n for n in node.inputs if n != before.output))))

    def renumbered(names: tuple[str, ...]) -> dict[str, Expr]:
        return {
            f"argument{i}": argument(inputs.index(name))
            for i, name in enumerate(names)
            if name != before.output
        }

    inner = substitute_expr(first.body, renumbered(before.inputs))
    values = renumbered(node.inputs)
    values |= {f"argument{i}": inner for i, name in enumerate(node.inputs) if name == before.output}
    body = substitute_expr(second.body, values)
    if expression_size(body) > LARGEST_BODY:
        return None
    return Node(
        name=before.name,
        members=(*before.members, *node.members),
        operator=Elementwise(body=body),
        inputs=tuple(inputs),
        output=node.output,
    )


def _with_epilogue(graph: FloatGraph, before: Node, node: Node) -> Node | None:
    operator = before.operator
    assert isinstance(operator, Convolution | Dense) and isinstance(node.operator, Elementwise)
    epilogue, body = operator.epilogue, node.operator.body
    inputs = before.inputs
    others = [name for name in node.inputs if name != before.output]
    if len(node.inputs) == 1:
        extended = _with_function(epilogue, body)
    elif body == argument(0) + argument(1) and len(others) == 1:
        # A residual: what is added last, before any activation.
        same = graph.tensors[others[0]].shape == graph.tensors[before.output].shape
        if not same or epilogue.operand or epilogue.activation != "none" or epilogue.tail is not None:
            return None
        extended, inputs = replace(epilogue, operand=True), (*inputs, others[0])
    else:
        return None
    if extended is None:
        return None
    return Node(
        name=before.name,
        members=(*before.members, *node.members),
        operator=replace(operator, epilogue=extended),
        inputs=inputs,
        output=node.output,
    )


def _with_function(epilogue: Epilogue, body: Expr) -> Epilogue | None:
    """The epilogue with a function of one argument behind it."""
    if epilogue.activation == "none" and epilogue.tail is None:
        if body == scalars.relu(argument(0)):
            return replace(epilogue, activation="relu")
        match body:
            case Binary(op="min", a=Binary(op="max", a=Var(), b=Const(value=low)), b=Const(value=high)):
                return replace(epilogue, activation="clip", low=float(low), high=float(high))
    tail = body if epilogue.tail is None else substitute_expr(body, {"argument0": epilogue.tail})
    if expression_size(tail) > LARGEST_BODY:
        return None
    return replace(epilogue, tail=tail)


def expression_size(expr: Expr) -> int:
    """How many nodes an expression has."""
    return sum(1 for _ in walk_expr(expr))
