"""Converts models of old opsets by ONNX's own converter, and corrects the results where the converter is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....graph.errors import ModelError
from ..attributes import STANDARD, subgraphs
from .model_rewrites import HIDDEN, SOFTMAX_HAS_ONE_AXIS, first_line, in_domains, needs_a_shape, set_domains
from .tidied_graphs import sort_nodes

RESIZE = 10
"""The opset that introduced Resize, in place of Upsample."""

RESIZE_HAS_COORDINATES = 11
"""The first opset in which attributes of Resize define the elements that it reads."""


def convert_opset(label: str, model: onnx.ModelProto, opset: int, wanted: int) -> onnx.ModelProto:
    """The model converted from an older `opset` to `wanted`; operators of other domains stay as they are.

    Raises ModelError if ONNX's converter cannot convert the model.
    """
    from onnx import version_converter

    try:
        if opset < 1:
            raise ValueError("ONNX has no such opset")
        sort_nodes(model.graph)
        # The converter infers shapes even behind a node that `opset` does not allow, and may add nodes.
        needing = [place for place, node in enumerate(model.graph.node) if needs_a_shape(node)]
        with in_domains(model, dict.fromkeys(needing, HIDDEN)):
            converted = version_converter.convert_version(model, wanted)
        places = [place for place, node in enumerate(converted.graph.node) if node.domain == HIDDEN]
        set_domains(converted, dict.fromkeys(places, ""))
        if opset < RESIZE_HAS_COORDINATES <= wanted:
            _write_coordinates(converted.graph, {}, may_shrink=opset >= RESIZE)
        if opset < SOFTMAX_HAS_ONE_AXIS <= wanted:
            _flatten_to_two_axes(converted.graph)
        return converted
    except Exception as error:
        # The converter raises exceptions of many types.
        raise ModelError(
            f"{label}: is of opset {opset}, older than {wanted}, and cannot be converted: {first_line(error)}; "
            "export the model again"
        ) from None


def _write_coordinates(graph: onnx.GraphProto, around: Mapping[str, np.ndarray], *, may_shrink: bool) -> None:
    """Adds to each Resize the attributes that define which elements it reads.

    Before opset 11 these attributes did not exist. ONNX's converter (1.23) does not add them, and their later defaults
    select other elements. Mode "nearest" rounds coordinates as ONNX Runtime does: up if an axis shrinks, else down.
    `around`: constants of the enclosing graphs. `may_shrink`: False for models with Upsample, which never shrinks.
    Raises ValueError for scales that need two different roundings, or that are not constant.
    """
    known = dict(around) | {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        for body in subgraphs(node):
            _write_coordinates(body, known, may_shrink=may_shrink)
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        if node.op_type != "Resize" or node.domain not in STANDARD:
            continue
        written = {"coordinate_transformation_mode": "asymmetric"}
        if any(entry.name == "mode" and entry.s != b"nearest" for entry in node.attribute):
            node.attribute.extend(starmap(helper.make_attribute, written.items()))
            continue
        scales = known.get(node.input[2]) if may_shrink else np.ones(1)
        if scales is None:
            raise ValueError(f"the scales of node '{node.name}' (Resize) are not constant")
        if (scales < 1).any() and (scales > 1).any():
            raise ValueError(f"node '{node.name}' (Resize) has scales below and above 1: {scales.tolist()}")
        written["nearest_mode"] = "ceil" if (scales < 1).any() else "floor"
        node.attribute.extend(starmap(helper.make_attribute, written.items()))


def _flatten_to_two_axes(graph: onnx.GraphProto) -> None:
    """Replaces each Hardmax by a Flatten, a Hardmax of two dimensions, and a Reshape.

    Before opset 13 Hardmax worked along all axes from `axis` (1 by default) to the last. ONNX's converter (1.23)
    converts Softmax and LogSoftmax, but does not change Hardmax.
    """
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for body in subgraphs(node):
            _flatten_to_two_axes(body)
        if node.op_type != "Hardmax" or node.domain not in STANDARD:
            nodes.append(node)
            continue
        (data,), (result,) = node.input, node.output
        name = node.name or result
        shape, rows, largest = (f"{result}/{what}" for what in ("shape", "rows", "largest"))
        axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 1)
        nodes += [
            helper.make_node("Shape", [data], [shape], f"{name}/Shape"),
            helper.make_node("Flatten", [data], [rows], f"{name}/Flatten", axis=axis),
            helper.make_node("Hardmax", [rows], [largest], name, axis=1),
            helper.make_node("Reshape", [largest, shape], [result], f"{name}/Reshape"),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
