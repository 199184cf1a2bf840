"""Folds multiplications by constants and additions of constants into the weights and bias of the convolution before or
after them. The constants have one value for each channel, as in batch normalization.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...graph.graph import Graph, Node, Tensor, unused, with_tensors
from ...graph.operators import BatchNormalization, Convolution, Dense, Elementwise
from ...ir.expr import Binary, Call, Const, Expr, Var
from ...ir.types import DType
from ...te.scalars import argument


def fold_scale_shift(graph: Graph) -> Graph:
    """Folds x * scale + shift, with constants for each channel, into the convolution or product that computes x, or
    into the one that reads the result. No other node may read the tensor between the two nodes. New weights are
    computed in float64 and rounded once.

    If the convolution or product computes x, its weights become W * scale, and its bias becomes bias * scale + shift.
    If it reads the result, its weights become W * scale, and a shift is not folded: padding is not shifted, and the
    shift would be rounded in the bias. Nothing is folded if a new weight or bias is not finite.
    """
    return _fold_before(_fold_behind(graph))


def expand_batch_norm(graph: Graph) -> Graph:
    """Replaces each BatchNormalization by an element-wise multiplication and addition."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operator, BatchNormalization):
            graph, node = _multiply_add(graph, node)
        nodes.append(node)
    same = all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
    return graph if same else replace(graph, nodes=tuple(nodes))


@dataclass(frozen=True, slots=True)
class _Affine:
    """The value `data` * `scale` + `shift`. `data`: a tensor's name; `scale`, `shift`: float64 arrays with a single
    element or with one element for each channel.
    """

    data: str
    scale: np.ndarray
    shift: np.ndarray


def _fold_behind(graph: Graph) -> Graph:
    uses = graph.uses()
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        nodes[node.output] = node
        affine = _affine(graph, node)
        # The node before may already contain an earlier fold: look it up by the name of its new output.
        before = None if affine is None else nodes.get(affine.data)
        if affine is None or before is None or uses[affine.data] != 1 or not _is_plain_sum(before):
            continue
        folded = _with_scaled_result(graph, before, node, affine)
        if folded is not None:
            del nodes[affine.data]
            graph, nodes[node.output] = folded
    return _with_nodes(graph, tuple(nodes.values()))


def _fold_before(graph: Graph) -> Graph:
    uses, producers = graph.uses(), graph.producers()
    gone: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        before = producers.get(node.inputs[0]) if node.inputs else None
        if (
            before is not None
            and isinstance(node.operator, Convolution | Dense)
            and uses[before.output] == 1
            and before.output not in gone
        ):
            affine = _affine(graph, before)
            if affine is not None and not affine.shift.any():
                scaled = _with_scaled_data(graph, before, node, affine)
                if scaled is not None:
                    gone.add(before.output)
                    graph, node = scaled
        nodes.append(node)
    return _with_nodes(graph, tuple(node for node in nodes if node.output not in gone))


def _with_nodes(graph: Graph, nodes: tuple[Node, ...]) -> Graph:
    same = len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
    return graph if same else replace(graph, nodes=nodes)


def _is_plain_sum(node: Node) -> bool:
    operator = node.operator
    if not isinstance(operator, Convolution | Dense):
        return False
    epilogue = operator.epilogue
    return not epilogue.operand and epilogue.activation == "none"


def _affine(graph: Graph, node: Node) -> _Affine | None:
    """Finds the scale and the shift that a node applies to each channel of its input, if the node computes only input *
    scale + shift with constants. Returns None for any other node.
    """
    if isinstance(node.operator, BatchNormalization):
        scale, shift = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
        return _Affine(node.inputs[0], scale, shift)
    if not isinstance(node.operator, Elementwise):
        return None
    data = [name for name in node.inputs if name not in graph.constants]
    shape = graph.tensors[node.output].shape
    if len(data) != 1 or len(shape) < 2 or graph.tensors[data[0]].shape != shape:
        return None
    if any(graph.tensors[name].dtype is not DType.FLOAT32 for name in (*node.inputs, node.output)):
        return None
    known: dict[str, np.ndarray] = {}
    for i, name in enumerate(node.inputs):
        if name not in graph.constants:
            continue
        array = graph.constants[name]
        aligned = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
        if array.size != 1 and aligned.shape != (1, shape[1], *[1] * (len(shape) - 2)):
            return None
        known[argument(i).name] = array.reshape(-1).astype(np.float64)
    with np.errstate(all="ignore"):
        form = _linear_form(node.operator.body, known)
    if form is None:
        return None
    scale, shift = form
    return None if scale is None else _Affine(data[0], *np.broadcast_arrays(scale, shift))


def _linear_form(body: Expr, known: dict[str, np.ndarray]) -> tuple[np.ndarray | None, np.ndarray] | None:
    """Returns (scale, shift) of an expression that equals scale * x + shift, where x is its only operand that is not
    constant. For a constant expression, scale is None. Returns None for any other expression. `known`: constants by
    name.
    """
    match body:
        case Const(value=value):
            return None, np.array([float(value)])
        case Var(name=name):
            return (None, known[name]) if name in known else (np.ones(1), np.zeros(1))
        case Binary(op=op, a=a, b=b) | Call(function="divide" as op, arguments=(a, b)):
            first, second = _linear_form(a, known), _linear_form(b, known)
        case _:
            return None
    if first is None or second is None:
        return None
    (s, t), (u, v) = first, second
    match op:
        case "+" | "-":
            sign = 1.0 if op == "+" else -1.0
            if u is not None:
                s = u * sign if s is None else s + u * sign
            return s, t + v * sign
        case "*" if u is None:
            return (None if s is None else s * v), t * v
        case "*" if s is None and u is not None:
            return u * t, v * t
        case "divide" if u is None:
            return (None if s is None else s / v), t / v
    return None


def _with_scaled_result(graph: Graph, before: Node, node: Node, affine: _Affine) -> tuple[Graph, Node] | None:
    operator = before.operator
    assert isinstance(operator, Convolution | Dense)
    scale, shift = affine.scale, affine.shift
    weight = graph.constants[before.inputs[1]].astype(np.float64)
    filters = weight.shape[0] if isinstance(operator, Convolution) else weight.shape[1]
    scale, shift = (np.broadcast_to(part, (filters,)) for part in (scale, shift))
    bias = shift
    with np.errstate(all="ignore"):
        weight *= scale.reshape(-1, 1, 1, 1) if isinstance(operator, Convolution) else scale
        if operator.epilogue.bias:
            bias = shift + graph.constants[before.inputs[2]].astype(np.float64) * scale
    made = _stored(graph, node.output, weight=weight, bias=bias)
    if made is None:
        return None
    graph, names = made
    folded = replace(
        before,
        members=(*before.members, *node.members),
        operator=replace(operator, epilogue=replace(operator.epilogue, bias=True)),
        inputs=(before.inputs[0], *names),
        output=node.output,
    )
    return graph, folded


def _with_scaled_data(graph: Graph, before: Node, node: Node, affine: _Affine) -> tuple[Graph, Node] | None:
    operator = node.operator
    assert isinstance(operator, Convolution | Dense)
    weight = graph.constants[node.inputs[1]].astype(np.float64)
    channels = graph.tensors[affine.data].shape[1]
    scale = np.broadcast_to(affine.scale, (channels,))
    with np.errstate(all="ignore"):
        if isinstance(operator, Convolution):
            grouped = weight.reshape(operator.groups, -1, *weight.shape[1:])
            weight = (grouped * scale.reshape(operator.groups, 1, -1, 1, 1)).reshape(weight.shape)
        else:
            weight = weight * scale[:, None]
    made = _stored(graph, node.output, weight=weight)
    if made is None:
        return None
    graph, (name,) = made
    scaled = replace(
        node, members=(*before.members, *node.members), inputs=(affine.data, name, *node.inputs[2:])
    )
    return graph, scaled


def _stored(graph: Graph, stem: str, **arrays: np.ndarray) -> tuple[Graph, tuple[str, ...]] | None:
    """Adds `arrays` to the graph as float32 constants. Returns the new graph and the names of the constants, which
    begin with `stem`. Returns None if an array has an element that is not finite.
    """
    names: list[str] = []
    for what, array in arrays.items():
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float32)
        if not np.isfinite(rounded).all():
            return None
        name = unused(f"{stem}.{what}", graph.tensors)
        graph = with_tensors(graph, Tensor(name=name, shape=array.shape))
        graph = replace(graph, constants={**graph.constants, name: rounded})
        names.append(name)
    return graph, tuple(names)


def _multiply_add(graph: Graph, node: Node) -> tuple[Graph, Node]:
    data, scale, shift = node.inputs
    rank = len(graph.tensors[data].shape)
    names: list[str] = []
    for constant in (scale, shift):
        array = graph.constants[constant].reshape(1, -1, *[1] * (rank - 2))
        name = unused(f"{constant}.channels", graph.tensors)
        graph = with_tensors(graph, Tensor(name=name, shape=array.shape))
        graph = replace(graph, constants={**graph.constants, name: array})
        names.append(name)
    body = argument(0) * argument(1) + argument(2)
    return graph, replace(node, operator=Elementwise(body=body), inputs=(data, *names))
