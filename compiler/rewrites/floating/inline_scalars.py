"""Replaces constants of one element by numbers in the expressions that read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph.graph import Graph, Node, Tensor, unused, with_tensors
from ...graph.operators import Elementwise, Reshape
from ...ir.expr import Const, Expr
from ...ir.types import DType
from ...ir.visit import substitute_expr
from ...te.merge import broadcast
from ...te.scalars import argument, argument_types


def inline_scalars(graph: Graph) -> Graph:
    """Writes constants of one element as numbers into the expressions of element-wise operators. A constant NaN stays
    an input.

    If a condition in an expression is constant, the new expression reads only some of the inputs. An unread input is
    removed, so that it does not keep the node that computes it from being fused. If the result has its shape from this
    input, zeros replace the input. If the result is a single number, it becomes a constant, and so do views of the
    result.
    """
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        made = _without_unread(graph, constants, _inlined(graph, node))
        tensor = graph.tensors[node.output]
        match made.operator:
            case Elementwise(body=Const(value=value)):
                constants[node.output] = np.full(tensor.shape, value, tensor.dtype.numpy)
            case Reshape(offset=0) if node.inputs[0] in constants:
                constants[node.output] = constants[node.inputs[0]].reshape(tensor.shape)
            case _:
                nodes.append(made)
    if len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph
    added = [
        Tensor(name=name, shape=array.shape) for name, array in constants.items() if name not in graph.tensors
    ]
    return with_tensors(replace(graph, nodes=tuple(nodes), constants=constants), *added)


def _inlined(graph: Graph, node: Node) -> Node:
    """Replaces the constants of one element that `node` reads by numbers in its expression. Returns the node unchanged
    if it reads no such constant, or if only a constant's shape (1, 1, ...) gives the result its number of dimensions.
    """
    if not isinstance(node.operator, Elementwise):
        return node
    values: dict[str, Expr] = {}
    types = argument_types(node.operator.body)
    others: list[str] = []
    for i, name in enumerate(node.inputs):
        array = graph.constants.get(name)
        dtype = types.get(argument(i).name, DType.FLOAT32)
        if array is not None and _is_number(array, dtype):
            values[argument(i).name] = Const(array.reshape(-1)[0].item(), dtype)
        else:
            values[argument(i).name] = argument(len(others), dtype)
            others.append(name)
    if len(others) == len(node.inputs):
        return node
    if others and broadcast([graph.tensors[o].shape for o in others]) != graph.tensors[node.output].shape:
        return node
    body = substitute_expr(node.operator.body, values)
    return replace(node, operator=Elementwise(body=body), inputs=tuple(others))


def _without_unread(graph: Graph, constants: dict[str, np.ndarray], node: Node) -> Node:
    """The node without the inputs that its expression does not read. If the remaining inputs do not broadcast to the
    result's shape, an input of zeros with this shape is added to the node and to `constants`.
    """
    if not isinstance(node.operator, Elementwise):
        return node
    body, shape = node.operator.body, graph.tensors[node.output].shape
    types = argument_types(body)
    read = [i for i in range(len(node.inputs)) if argument(i).name in types]
    if len(read) == len(node.inputs) or isinstance(body, Const):
        return node
    inputs = [node.inputs[i] for i in read]
    if broadcast([graph.tensors[name].shape for name in inputs]) != shape:
        zeros = unused(f"{node.output}.zeros", graph.tensors, constants)
        constants[zeros] = np.zeros(shape, np.float32)
        inputs.append(zeros)
    values = {argument(i).name: argument(place, types[argument(i).name]) for place, i in enumerate(read)}
    return replace(node, operator=Elementwise(body=substitute_expr(body, values)), inputs=tuple(inputs))


def _is_number(array: np.ndarray, dtype: DType) -> bool:
    """Whether a constant of type `dtype` has one element that can be written as a number into an expression. False for
    NaN, and for constants of float8 and float4, whose arrays hold codes.
    """
    return array.size == 1 and not dtype.is_code and not (dtype.is_float and np.isnan(array).any())
