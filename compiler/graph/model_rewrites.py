"""Rewrites of a whole ONNX model that keep its results: functions inlined, an older opset converted, shapes
inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, inliner, numpy_helper, shape_inference

from .errors import InvalidModelError, ModelError
from .onnx_attributes import CONTRIBUTED, STANDARD, subgraphs

CONTRIBUTED_STANDARD = frozenset(("QuantizeLinear", "DequantizeLinear"))
"""Operators of the domain `com.microsoft` with the same meaning as ONNX's operators of the same names. Models of opsets
below 21 use them for integers of 16 and 4 bits, which ONNX's own operators lack there."""

DEFAULTS_MISREAD = frozenset(("STFT",))
"""Operators for which ONNX's shape inference reads 0 for an attribute that is left out."""
NEEDS_A_SHAPE = frozenset(("EyeLike",))
"""Operators at which ONNX's shape inference (1.23) ends the process if an input has no shape, for example the result of
an operator of another domain.
"""
_HIDDEN = "hidden from shape inference"
"""Domain of nodes that shape inference must not see."""
RESIZE = 10
"""The opset that introduced Resize, in place of Upsample."""
RESIZE_HAS_COORDINATES = 11
"""The first opset in which attributes of Resize define the elements that it reads."""
SOFTMAX_HAS_ONE_AXIS = 13
"""The first opset in which Softmax, LogSoftmax and Hardmax are along one axis, not along all axes from one on."""


def means_standard(domain: str, operator: str) -> bool:
    """Whether an operator is one of ONNX's own, or has the same meaning as ONNX's operator of the same name."""
    return domain in STANDARD or (domain == CONTRIBUTED and operator in CONTRIBUTED_STANDARD)


def standard_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """A copy of the node in ONNX's own domain; see `means_standard`."""
    standard = onnx.NodeProto()
    standard.CopyFrom(node)
    standard.domain = ""
    return standard


def inline_functions(label: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of its own functions inlined; `label` names the model in messages.

    The nodes of a function become nodes of the graph, without names. Raises InvalidModelError if ONNX's inliner leaves
    a call.
    """
    if not model.functions:
        return model
    try:
        flat = inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:
        # The inliner raises exceptions of many types from its version converter.
        reason = first_line(error)
    else:
        if not flat.functions:
            return flat
        reason = f"function '{flat.functions[0].name}' of domain '{flat.functions[0].domain}' calls itself"
    raise InvalidModelError(
        f"{label}: its functions cannot be inlined: {reason}; inline them with onnx.inliner, or export the model "
        "without functions"
    ) from None


def convert_opset(label: str, model: onnx.ModelProto, opset: int, wanted: int) -> onnx.ModelProto:
    """The model converted from an older `opset` to `wanted`; operators of other domains stay as they are.

    Raises ModelError if ONNX's converter cannot convert the model.
    """
    from onnx import version_converter

    try:
        if opset < 1:
            raise ValueError("there is no such opset")
        # The converter infers shapes even behind a node that `opset` does not allow, and may add nodes.
        needing = [place for place, node in enumerate(model.graph.node) if _needs_a_shape(node)]
        with _in_domains(model, dict.fromkeys(needing, _HIDDEN)):
            converted = version_converter.convert_version(model, wanted)
        places = [place for place, node in enumerate(converted.graph.node) if node.domain == _HIDDEN]
        _set_domains(converted, dict.fromkeys(places, ""))
        if opset < RESIZE_HAS_COORDINATES <= wanted:
            _write_coordinates(converted.graph, {}, may_shrink=opset >= RESIZE)
        if opset < SOFTMAX_HAS_ONE_AXIS <= wanted:
            _flatten_to_two_axes(converted.graph)
        return converted
    except Exception as error:
        # The converter raises exceptions of many types.
        raise ModelError(
            f"{label}: is of opset {opset}, older than {wanted}, and cannot be converted: {first_line(error)}; "
            "export it again"
        ) from None


def _write_coordinates(graph: onnx.GraphProto, around: Mapping[str, np.ndarray], *, may_shrink: bool) -> None:
    """Adds the attributes of each Resize that define the elements it reads.

    Before opset 11 there were none, and ONNX's converter (1.23) leaves the later defaults, which differ. Nearest
    elements are those of ONNX Runtime: the next element where an axis shrinks, else the one before. `around`: constants
    of the enclosing graphs. `may_shrink`: False for models with Upsample, which never shrinks. Raises ValueError for
    scales that need two different roundings, or that are not constant.
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
    """Replaces each Hardmax by one of two dimensions, between a Flatten and a Reshape.

    Before opset 13 Hardmax was along all axes from `axis` (1 by default) on; ONNX's converter (1.23) leaves the node as
    it is, though it converts Softmax and LogSoftmax.
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


def infer_shapes(model: onnx.ModelProto, *, follow: bool) -> onnx.ModelProto:
    """The model with inferred shapes of its tensors; with `follow` shapes also follow from values.

    Raises InferenceError and ValueError.
    """
    nodes = model.graph.node
    named = [place for place, node in enumerate(nodes) if _is_named_as_standard(node)]
    domains = dict.fromkeys(named, "") | dict.fromkeys(_without_shape(nodes), _HIDDEN)
    with _in_domains(model, domains) as before:
        _write_defaults(model)
        # Types are not checked: ONNX's own operators of these names lack some of the types.
        inferred = shape_inference.infer_shapes(
            model, check_type=not named, strict_mode=True, data_prop=follow
        )
    _set_domains(inferred, before)
    return inferred


def _is_named_as_standard(node: onnx.NodeProto) -> bool:
    return node.domain == CONTRIBUTED and node.op_type in CONTRIBUTED_STANDARD


def _without_shape(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Indices of the nodes that need the shape of an input which may come from an operator of another domain."""
    found = [place for place, node in enumerate(nodes) if _needs_a_shape(node)]
    if not found or all(node.domain in STANDARD or _is_named_as_standard(node) for node in nodes):
        return []
    return found


def _needs_a_shape(node: onnx.NodeProto) -> bool:
    return node.op_type in NEEDS_A_SHAPE and node.domain in STANDARD


@contextmanager
def _in_domains(model: onnx.ModelProto, domains: Mapping[int, str]) -> Iterator[dict[int, str]]:
    """A context in which nodes have other `domains`, by node index; its value is their own domains, which they get back
    at its end.
    """
    before = {place: model.graph.node[place].domain for place in domains}
    _set_domains(model, domains)
    try:
        yield before
    finally:
        _set_domains(model, before)


def _set_domains(model: onnx.ModelProto, domains: Mapping[int, str]) -> None:
    """Sets the domains of nodes, by node index. The model imports `_HIDDEN` while a node has this domain."""
    for place, domain in domains.items():
        model.graph.node[place].domain = domain
    imports = [entry for entry in model.opset_import if entry.domain == _HIDDEN]
    for entry in imports:
        model.opset_import.remove(entry)
    if _HIDDEN in domains.values():
        model.opset_import.add(domain=_HIDDEN, version=1)


def _write_defaults(model: onnx.ModelProto) -> None:
    """Writes default values of attributes into nodes where ONNX's inference (1.23) does not use them: operators whose
    shapes it infers from their function, and `DEFAULTS_MISREAD`."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        if node.domain not in STANDARD:
            continue
        try:
            schema: Any = defs.get_schema(node.op_type, versions.get(node.domain, versions.get("", 1)), "")
        except defs.SchemaError:
            continue
        known = schema.has_type_and_shape_inference_function or not schema.has_function
        if known and node.op_type not in DEFAULTS_MISREAD:
            continue
        given = {entry.name for entry in node.attribute}
        node.attribute.extend(
            attribute.default_value
            for name, attribute in schema.attributes.items()
            if name not in given and attribute.default_value.name
        )


def first_line(error: Exception) -> str:
    """The first non-empty line of an error's text, for a message of one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
