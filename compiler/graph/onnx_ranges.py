"""Limits on Range, checked before ONNX's shape inference: if that follows values, it lists all numbers of a Range.

A Range of 2**40 numbers would exhaust the memory. Its length is computed first, by the same inference: ConstantOfShape
of a number has that number as its dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from onnx import helper, numpy_helper, shape_inference

from ..ir.limits import MOST_NUMBERS
from .budgets import SMALLER
from .errors import ModelError
from .onnx_attributes import nodes_of, subgraphs

MOST_RANGES = 32
"""Most Ranges whose lengths are computed: each takes an inference of all nodes before it."""
_SMALL = 64
"""Most elements of an initializer that a shape may depend on."""


def check_ranges(label: str, model: onnx.ModelProto) -> bool:
    """Whether shape inference may follow values. Raises ModelError for a Range of more than MOST_NUMBERS numbers."""
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
                f"{label}: node '{node.name or f'{node.op_type}_{index}'}' ({node.op_type}): has {numbers:,} numbers, "
                f"more than the {MOST_NUMBERS:,} that there may be; {SMALLER}"
            )
    return True


def _numbers(model: onnx.ModelProto, index: int) -> int | None:
    """Length of the Range at `index`; None if inference does not know its inputs."""
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
    """Values of the integers among `names` that inference knows before node `index`."""
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
        inferred = shape_inference.infer_shapes(asked, data_prop=True)
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
