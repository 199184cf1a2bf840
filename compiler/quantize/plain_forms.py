"""Rewrites operators that quantization does not support. An Einsum that is a matrix product becomes a MatMul; a sum
divided by its number of terms becomes a ReduceMean; a max-pool over many axes becomes a max-pool of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..frontends.onnx.attributes import read_node
from .float_model import FloatModel, input_name

MEAN_READS_AXES = 18
"""The first opset in which ReduceMean has its axes as an input. (ReduceSum has them as an input since opset 13.)"""


def name_matrix_products(model: FloatModel) -> None:
    """Replaces each Einsum that is a matrix product by a MatMul; Transposes are added where the order of axes differs.
    Such an Einsum sums over one axis that both inputs have, and the second input has one axis that the first input
    lacks. In "btd,de->bte" these axes are d and e, in "bqhd,bkhd->bhqk" d and k.
    """
    nodes: list[onnx.NodeProto] = []
    for proto in model.nodes:
        product = _product(model, proto) if proto.op_type == "Einsum" else None
        nodes += [proto] if product is None else _matmul(model, proto, product)
    model.nodes = nodes


def name_means(model: FloatModel) -> None:
    """Replaces sums that are divided by their number of terms, a ReduceSum followed by a Div, by a ReduceMean. No other
    node may read the sums.
    """
    uses, producers = model.uses(), model.producers()
    for node in list(model.nodes):
        total = producers.get(node.input[0]) if node.op_type == "Div" else None
        divisor = model.float_constant(node.input[1]) if total is not None else None
        if total is None or total.op_type != "ReduceSum" or uses[total.output[0]] != 1 or divisor is None:
            continue
        given, made = (model.static_shapes.get(name) for name in (total.input[0], total.output[0]))
        axes = model.constants.get(input_name(total, 1))
        if axes is None or given is None or made is None or divisor.size != 1 or divisor.ndim > len(made):
            continue
        if prod(given) != prod(made) * divisor.item():
            continue
        total.op_type = "ReduceMean"
        if model.opset < MEAN_READS_AXES:
            total.attribute.append(helper.make_attribute("axes", axes.tolist()))
            del total.input[1:]
        total.output[0] = node.output[0]
        model.nodes.remove(node)


def flatten_pools(model: FloatModel) -> None:
    """Replaces each MaxPool over three or more axes by a MaxPool of images between transpositions. This is possible if
    the window and stride are 1 and there are no pads along all axes but two. (In exported JAX models, pools have
    windows over all axes of an array.)
    """
    nodes: list[onnx.NodeProto] = []
    for proto in model.nodes:
        order = _pool_order(model, proto) if proto.op_type == "MaxPool" else None
        nodes += [proto] if order is None else _image_pool(model, proto, order)
    model.nodes = nodes


def _pool_order(model: FloatModel, proto: onnx.NodeProto) -> list[int] | None:
    """The order of a MaxPool's input axes that `_image_pool` needs: the two axes that become the rows and columns of
    images are last. Returns None for a MaxPool that is not replaced.
    """
    shape, made = (model.static_shapes.get(name) for name in (proto.input[0], proto.output[0]))
    node = read_node(proto, 0)
    if len(proto.output) > 1 or shape is None or made is None or len(shape) < 5:
        return None
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or node.integer("ceil_mode", 0):
        return None
    spatial, kernel = len(shape) - 2, node.integers("kernel_shape", ())
    strides = node.integers("strides", (1,) * spatial)
    pads = node.integers("pads", (0,) * (2 * spatial))
    wide = [
        axis
        for axis in range(spatial)
        if (kernel[axis], strides[axis], pads[axis], pads[spatial + axis]) != (1, 1, 0, 0)
    ]
    # A pool with windows along one axis keeps the next axis as its columns.
    wide += [axis for axis in reversed(range(spatial)) if axis not in wide][: max(0, 2 - len(wide))]
    if len(wide) > 2:
        return None
    windows = sorted(axis + 2 for axis in wide)
    return [*(axis for axis in range(len(shape)) if axis not in windows), *windows]


def _image_pool(model: FloatModel, proto: onnx.NodeProto, order: list[int]) -> list[onnx.NodeProto]:
    """The nodes that replace a MaxPool. They transpose the axes to `order`, join all axes but the last three by a
    Reshape, apply a MaxPool of images, and reverse the Reshape and the transposition.
    """
    node, nodes = read_node(proto, 0), list[onnx.NodeProto]()
    given, made = model.static_shapes[proto.input[0]], model.static_shapes[proto.output[0]]
    spatial, windows = len(given) - 2, [axis - 2 for axis in order[-2:]]

    def reshaped(name: str, shape: Sequence[int], label: str) -> str:
        output, sizes = _tensor(model, label, shape), model.store(f"{label}.shape", np.array(shape, np.int64))
        nodes.append(helper.make_node("Reshape", [name, sizes], [output], name=label))
        return output

    def image(shape: Sequence[int]) -> tuple[int, ...]:
        sizes = [shape[axis] for axis in order]
        return (prod(sizes[:-3]), *sizes[-3:])

    moved = _moved(model, nodes, proto.input[0], order, f"{proto.name}.axes")
    flat = reshaped(moved, image(given), f"{proto.name}.image")
    pads = node.integers("pads", (0,) * (2 * spatial))
    attributes: dict[str, Any] = {
        name: [node.integers(name, (1,) * spatial)[axis] for axis in windows]
        for name in ("kernel_shape", "strides", "dilations")
    }
    attributes["pads"] = [pads[axis] for axis in (*windows, *(spatial + axis for axis in windows))]
    pooled = _tensor(model, f"{proto.name}.pooled", image(made))
    nodes.append(helper.make_node("MaxPool", [flat], [pooled], name=proto.name, **attributes))
    whole = reshaped(pooled, [made[axis] for axis in order], f"{proto.name}.whole")
    back = [order.index(axis) for axis in range(len(order))]
    nodes.append(helper.make_node("Transpose", [whole], proto.output, name=f"{proto.name}.back", perm=back))
    return nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """The axes of the first input, the second input and the result of a matrix product, as strings of one letter for
    each axis. `given`: in the order of the Einsum's equation; `wanted`: in the order that MatMul requires.
    """

    given: tuple[str, str, str]
    wanted: tuple[str, str, str]


def _product(model: FloatModel, proto: onnx.NodeProto) -> _Product | None:
    """The axes of an Einsum that is a matrix product; None for any other Einsum."""
    inputs, _, result = read_node(proto, 0).text("equation", "").replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or not result or not model.is_float(proto.input[0]):
        return None
    left, right = terms
    shapes = [model.static_shapes.get(proto.input[0])]
    weight = model.float_constant(proto.input[1])
    shapes.append(model.static_shapes.get(proto.input[1]) if weight is None else weight.shape)
    sizes: dict[str, int] = {}
    for term, shape in zip(
        (*terms, result), (*shapes, model.static_shapes.get(proto.output[0])), strict=True
    ):
        if not term.isalpha() or len(set(term)) != len(term) or shape is None or len(shape) != len(term):
            return None
        if any(sizes.setdefault(letter, size) != size for letter, size in zip(term, shape, strict=True)):
            return None
    batch = "".join([c for c in left if c in right and c in result])
    depth = "".join([c for c in left if c in right and c not in result])
    rows = "".join([c for c in left if c not in right])
    columns = "".join([c for c in right if c not in left])
    if len(depth) != 1 or len(columns) != 1 or not rows or (batch and len(rows) != 1):
        return None
    made = batch + rows + columns
    if set(made) != set(result):
        return None
    return _Product(given=(left, right, result), wanted=(batch + rows + depth, batch + depth + columns, made))


def _matmul(model: FloatModel, proto: onnx.NodeProto, product: _Product) -> list[onnx.NodeProto]:
    """The nodes that replace an Einsum: a MatMul, and a Transpose for each tensor whose axes MatMul requires in another
    order.
    """
    (left, right, result), (wanted_left, wanted_right, made) = product.given, product.wanted
    nodes: list[onnx.NodeProto] = []
    operands = [
        _moved(model, nodes, proto.input[0], [left.index(c) for c in wanted_left], f"{proto.name}.left"),
        _moved(model, nodes, proto.input[1], [right.index(c) for c in wanted_right], f"{proto.name}.right"),
    ]
    output, order = proto.output[0], [made.index(c) for c in result]
    if order == sorted(order):
        return [*nodes, helper.make_node("MatMul", operands, [output], name=proto.name)]
    shape = model.static_shapes[output]
    tensor = _tensor(model, f"{output}.product", [shape[result.index(c)] for c in made])
    product_node = helper.make_node("MatMul", operands, [tensor], name=proto.name)
    move = helper.make_node("Transpose", [tensor], [output], name=f"{proto.name}.result", perm=order)
    return [*nodes, product_node, move]


def _moved(
    model: FloatModel, nodes: list[onnx.NodeProto], name: str, order: Sequence[int], label: str
) -> str:
    """The name of tensor `name` with its axes in the order `order`, as for Transpose: `name` itself, a new constant, or
    the result of a Transpose called `label`, which is added to `nodes`.
    """
    if list(order) == sorted(order):
        return name
    constant = model.float_constant(name)
    if constant is not None:
        return model.store(f"{name}.transposed", np.ascontiguousarray(constant.transpose(order)))
    shape = model.static_shapes[name]
    moved = _tensor(model, label, [shape[axis] for axis in order])
    nodes.append(helper.make_node("Transpose", [name], [moved], name=label, perm=order))
    return moved


def _tensor(model: FloatModel, name: str, shape: Sequence[int]) -> str:
    """The name of a new float32 activation of this shape: `name`, with "_" appended while the name is in use."""
    while name in model.types or name in model.constants:
        name += "_"
    model.types[name], model.static_shapes[name] = onnx.TensorProto.FLOAT, tuple(shape)
    return name
