"""ONNX's shape inference without its faults: a Range without limit, pools with `ceil_mode`, and nodes that end the
process or never end.

If inference propagates values, it lists all numbers of a Range, and 2**40 numbers would exhaust the memory. The length
of each Range is therefore computed first, from its inputs. A trick makes inference return an input's value n: a
ConstantOfShape of n elements is added to the model, and the inferred size of its result is n.

With `ceil_mode`, inference counts a last window that is entirely in the pad. ONNX drops that window since opset 19,
ONNX Runtime in every opset. All shapes after the pool would be wrong. Larger pads at the end of each axis, which give
the right windows, therefore replace `ceil_mode`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import onnx
from onnx import helper, numpy_helper, shape_inference

from ....graph.budgets import SMALLER
from ....graph.errors import ModelError
from ....graph.geometry import ceiling_pads, window_extent
from ....ir.limits import MOST_NUMBERS
from ....te.blocks import ceil_div
from ..attributes import contradiction, nodes_of, read_node, subgraphs
from .model_rewrites import HIDDEN, in_domains, needs_a_shape, set_domains

MOST_RANGES = 32
"""Largest number of Ranges whose lengths are computed, since each takes a shape inference of all nodes before it."""

_SMALL = 64
"""Largest number of elements of an initializer whose values may determine a shape."""


EQUATION = re.compile(r"({0}(,{0})*(->{0})?)?".format(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"))
"""The equation of an Einsum without blanks: letters and one ellipsis per term."""


def check_returns(label: str, model: onnx.ModelProto) -> None:
    """Raises NodeError for two kinds of nodes from which ONNX's shape inference (1.23) does not return. A Split whose
    `num_outputs` is not its number of outputs ends the process. An Einsum with a malformed equation is read forever.
    """
    for number, proto in nodes_of(model.graph):
        if proto.op_type not in ("Split", "Einsum"):
            continue
        node = read_node(proto, number)
        if node.op_type == "Split":
            outputs = node.attributes.get("num_outputs", len(proto.output))
            if outputs == len(proto.output):
                continue
            problem = f"has {len(proto.output)} outputs, but num_outputs = {outputs!r}"
        else:
            equation = node.text("equation", "")
            if EQUATION.fullmatch(equation.replace(" ", "")):
                continue
            problem = f"has the equation {equation!r}, which must be terms of letters, commas and an arrow"
        raise contradiction(label, proto, number, problem)


def check_ranges(label: str, model: onnx.ModelProto) -> bool:
    """Whether ONNX's shape inference may also compute constant values in the model. This is not safe if a Range might
    produce too many numbers, and its length cannot be checked first. Raises ModelError for a Range known to produce
    more than `MOST_NUMBERS` numbers.
    """
    bodies = (body for node in model.graph.node for body in subgraphs(node))
    inner = (node.op_type for body in bodies for _, node in nodes_of(body))
    if any(function.node for function in model.functions) or "Range" in inner:
        return False
    found = [index for index, node in enumerate(model.graph.node) if node.op_type == "Range"]
    if len(found) > MOST_RANGES:
        return False
    for index in found:
        node = model.graph.node[index]
        numbers = _numbers(model, index)
        if numbers is not None and numbers > MOST_NUMBERS:
            raise ModelError(
                f"{label}: node '{node.name or f'{node.op_type}_{index}'}' ({node.op_type}): produces {numbers:,} "
                f"numbers, more than the limit of {MOST_NUMBERS:,}; {SMALLER}"
            )
    return True


def _numbers(model: onnx.ModelProto, index: int) -> int | None:
    """Length of the Range with node index `index`; None if shape inference does not know the values of its inputs, if
    one of them is not finite, or if the step is 0."""
    names = list(model.graph.node[index].input)
    given = {item.name: item for item in model.graph.initializer if math.prod(item.dims) == 1}
    values: list[float | None] = [
        float(numpy_helper.to_array(given[name]).reshape(-1)[0]) if name in given else None for name in names
    ]
    if None in values:
        asked = _inferred(model, index, [name for name in names if name not in given])
        values = [
            asked.get(name) if value is None else value for name, value in zip(names, values, strict=True)
        ]
    known = [value for value in values if value is not None]
    if len(known) != 3 or not known[2] or not all(map(math.isfinite, known)):
        return None
    start, limit, delta = known
    return max(0, math.ceil((limit - start) / delta))


def _inferred(model: onnx.ModelProto, index: int, names: Sequence[str]) -> dict[str, float]:
    """Asks ONNX's shape inference for the values of the integers `names`. The inference sees only the nodes before the
    node with index `index`. Returns the values that are known, by these names.
    """
    probes: list[onnx.NodeProto] = []
    outputs: dict[str, tuple[str, int]] = {}
    stem = "vdla probe"
    for number, name in enumerate(dict.fromkeys(names)):
        # A dimension is never negative, so each number is probed with either sign.
        probes.append(helper.make_node("Sub", [f"{stem} 0", name], [f"{stem} {number} negative"]))
        for sign, source in ((1, name), (-1, f"{stem} {number} negative")):
            output = f"{stem} {number} {sign}"
            probes.append(helper.make_node("Unsqueeze", [source, f"{stem} axes"], [f"{output} shape"]))
            probes.append(helper.make_node("ConstantOfShape", [f"{output} shape"], [output]))
            outputs[output] = name, sign
    graph = model.graph
    small = [item for item in graph.initializer if math.prod(item.dims) <= _SMALL]
    large = [item for item in graph.initializer if math.prod(item.dims) > _SMALL]
    known = {info.name for info in graph.input}
    part = helper.make_graph(
        [*graph.node[:index], *probes],
        "probe",
        [
            *graph.input,
            *(
                helper.make_tensor_value_info(item.name, item.data_type, list(item.dims))
                for item in large
                if item.name not in known
            ),
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [
            *small,
            helper.make_tensor(f"{stem} 0", onnx.TensorProto.INT64, (), [0]),
            helper.make_tensor(f"{stem} axes", onnx.TensorProto.INT64, (1,), [0]),
        ],
    )
    asked = helper.make_model(part, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    try:
        inferred = inferred_shapes(asked, data_prop=True)
    except (shape_inference.InferenceError, ValueError):
        # Errors of the model are reported by its own inference.
        return {}
    found: dict[str, float] = {}
    for info in inferred.graph.output:
        dimensions = info.type.tensor_type.shape.dim
        if len(dimensions) == 1 and dimensions[0].HasField("dim_value"):
            name, sign = outputs[info.name]
            found[name] = sign * dimensions[0].dim_value
    return found


def inferred_shapes(model: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
    """Runs ONNX's shape inference with `options`; returns the model with the shapes that were found. If ONNX cannot
    infer a node, the node's results have no shape.

    ONNX's inference crashes at some nodes whose input has no known shape (`needs_a_shape`). These nodes are hidden from
    inference.
    """
    places = [place for place, node in enumerate(model.graph.node) if needs_a_shape(node)]
    with in_domains(model, dict.fromkeys(places, HIDDEN)) as before:
        inferred = shape_inference.infer_shapes(model, **options)
    set_domains(inferred, before)
    return inferred


POOLS = ("MaxPool", "AveragePool", "LpPool")


def write_ceilings(model: onnx.ModelProto, *, follow: bool) -> None:
    """Replaces `ceil_mode` by pads in those pools of `model` for which ONNX's inference would find wrong sizes.
    `follow`: the inference also propagates values.
    """
    waiting = [
        node
        for node in model.graph.node
        if node.op_type in POOLS and read_node(node, 0).integer("ceil_mode", 0)
    ]
    while waiting:
        graph = inferred_shapes(model, data_prop=follow).graph
        shapes = {
            info.name: [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
            for info in (*graph.input, *graph.value_info)
        }
        for node in waiting:
            pads = _whole_pads(node, shapes.get(node.input[0], []))
            if pads is not None:
                kept = [entry for entry in node.attribute if entry.name not in ("ceil_mode", "pads")]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
                # Shapes that the file declares after this pool may have been inferred with the wrong size.
                _forget_shapes(model.graph)
                waiting = waiting[waiting.index(node) + 1 :]
                break
        else:
            return


def _whole_pads(node: onnx.NodeProto, shape: list[int]) -> list[int] | None:
    """Larger pads for the pool `node`, which give the same outputs without `ceil_mode`. `shape`: shape of the pool's
    input. Returns None if inference finds the right output size with `ceil_mode`, or if no such pads exist.
    """
    pool, plane, rank = read_node(node, 0), shape[2:], len(shape[2:])
    kernel = pool.integers("kernel_shape", ())
    strides, dilations = (pool.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = pool.integers("pads", (0,) * (2 * rank))
    sizes = (kernel, strides, dilations, pads[rank:])
    if not rank or min(plane) < 1 or any(len(given) != rank for given in sizes) or min(strides) < 1:
        return None
    # With count_include_pad the new pads would enter the averages.
    if pool.text("auto_pad", "NOTSET") != "NOTSET" or pool.integer("count_include_pad", 0):
        return None
    extents = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    whole = ceiling_pads(plane, extents, strides, pads)
    # Inference rounds the number of windows up, and drops none.
    spaces = [size + sum(pads[axis::rank]) - extents[axis] for axis, size in enumerate(plane)]
    kept = [size + sum(whole[axis::rank]) - extents[axis] for axis, size in enumerate(plane)]
    dropped = any(k // s < ceil_div(n, s) for k, n, s in zip(kept, spaces, strides, strict=True))
    return list(whole) if dropped else None


def _forget_shapes(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")
