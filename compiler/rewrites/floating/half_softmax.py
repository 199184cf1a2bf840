"""Softmax of 16-bit floats as one node, for kernels that compute attention in float32.

A model of 16-bit floats rounds after each step of a softmax. The importer therefore writes the softmax as the operators
maximum, difference, exponential, sum and quotient, and rounds after each (`decompose.softmax_steps`). A kernel that
computes scores, softmax and context in one pass does not round in between, so its result is more accurate.
"""

from __future__ import annotations

from dataclasses import replace

from ...graph.graph import Graph, Node
from ...graph.operators import Elementwise, Reduction, Softmax
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var, cast, dtype_of, select
from ...ir.types import HALVES, DType
from ...te.scalars import ELEMENT, argument, divide, exp

F32 = DType.FLOAT32


def with_whole_softmax(graph: Graph, product: Node) -> tuple[Graph, Node] | None:
    """Finds the softmax whose result is the first factor of the matrix product `product`. Replaces the nodes of the
    softmax by one node, which does not round to 16 bits in between. Returns (new graph, new node).

    In the new graph, `product` no longer rounds its result to 16 bits. Returns None if the first factor is not a
    softmax along the last axis, or if another node reads a value inside the softmax.
    """
    dtype = graph.tensors[product.own_inputs[0]].dtype
    producers = graph.producers()
    last = producers.get(product.own_inputs[0])
    if last is None or dtype not in HALVES:
        return None
    if isinstance(last.operator, Softmax):
        steps, softmax = (last,), last if is_rounding(last.result) else None
    else:
        steps, softmax = _joined(graph, last, dtype)
    if softmax is None:
        return None
    softmax = replace(softmax, result=None)
    plain = replace(product, result=None) if is_rounding(product.result) else product
    gone = {id(step) for step in steps[:-1]}
    new = {id(last): softmax, id(product): plain}
    nodes = [new.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    return replace(graph, nodes=tuple(nodes)), softmax


def _joined(graph: Graph, quotient: Node, dtype: DType) -> tuple[tuple[Node, ...], Node | None]:
    """Finds the softmax whose last step is `quotient`, with results of type `dtype`. Returns (nodes of the softmax, one
    node in their place), or ((), None).
    """
    producers, uses = graph.producers(), graph.uses()
    a, b = (cast(argument(i, dtype), F32) for i in range(2))
    none = (), None
    if not _computes(quotient, cast(divide(a, b), dtype)):
        return none
    power, total = (producers.get(name) for name in quotient.inputs)
    distance = cast(cast(a - b, dtype), F32)
    if power is None or total is None or not _computes(power, cast(exp(distance), dtype)):
        return none
    scores, greatest = power.inputs[0], producers.get(power.inputs[1])
    last = len(graph.tensors[scores].shape) - 1
    total_of, greatest_of = Reduction(kind="sum", axes=(last,)), Reduction(kind="max", axes=(last,))
    for node, operator, source in ((total, total_of, power.output), (greatest, greatest_of, scores)):
        if node is None or node.operator != operator or node.inputs != (source,) or node.data is not None:
            return none
        if not is_rounding(node.result) or uses[node.output] != 1:
            return none
    assert greatest is not None
    if uses[power.output] != 2 or uses[scores] != 2:
        return none
    steps = (greatest, power, total, quotient)
    members = dict.fromkeys(m for step in steps for m in step.members)
    return steps, replace(quotient, members=tuple(members), operator=Softmax(axis=last), inputs=(scores,))


def _computes(node: Node, body: Expr) -> bool:
    """Whether a node is element-wise and computes the expression `body` of its two inputs."""
    return node.operator == Elementwise(body=body) and len(node.inputs) == 2


def is_rounding(result: Expr | None) -> bool:
    """Whether the expression of an operator's result only rounds the result to 16 bits, or there is no expression."""
    return result is None or any(result == cast(ELEMENT, dtype) for dtype in HALVES)


def unrounded(expr: Expr) -> Expr:
    """A real-valued expression in float32, without the roundings to 16 bits inside it."""
    match expr:
        case Cast(value=value) if dtype_of(value).is_float:
            return unrounded(value)
        case Const(value=value):
            return Const(float(value), F32)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return select(condition, unrounded(then), unrounded(otherwise))
        case Binary(op=op, a=a, b=b):
            return Binary(op, unrounded(a), unrounded(b))
        case Call(function=function, arguments=arguments):
            wide = [unrounded(a) if dtype_of(a).is_float else a for a in arguments]
            return Call(function, tuple(wide), F32)
        case Var() | Load() | Cast():
            return cast(expr, F32)
    raise TypeError(f"expressions of the kind {type(expr).__name__} cannot be widened to float32")
