"""Rewrites of a whole ONNX model that keep its results: functions are inlined, and shapes are inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import onnx
from onnx import inliner, shape_inference

from ....graph.errors import InvalidModelError
from ..attributes import CONTRIBUTED, STANDARD, schema_of

CONTRIBUTED_STANDARD = frozenset(("QuantizeLinear", "DequantizeLinear"))
"""Operators of the domain `com.microsoft` with the same meaning as ONNX's operators of the same names. Before opset 21
ONNX's own operators have no integers of 16 and 4 bits, so models use these operators for them."""

DEFAULTS_MISREAD = frozenset(("STFT",))
"""Operators for which ONNX's shape inference reads 0 for an attribute that is left out."""

NEEDS_A_SHAPE = frozenset(("EyeLike", "RegexFullMatch"))
"""Operators at which the shape inference of ONNX 1.23 ends the process if an input (e.g. the result of an operator of
another domain) has no shape.
"""

HIDDEN = "hidden from shape inference"
"""Domain of nodes that shape inference must not see."""

SOFTMAX_HAS_ONE_AXIS = 13
"""The first opset in which Softmax, LogSoftmax and Hardmax work along `axis` alone, not along all axes from `axis`."""


def means_standard(domain: str, operator: str) -> bool:
    """Whether an operator is one of ONNX's own, or has the same meaning as ONNX's operator of the same name."""
    return domain in STANDARD or (domain == CONTRIBUTED and operator in CONTRIBUTED_STANDARD)


def standard_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """A copy of the node in ONNX's own domain; the node must mean the same as ONNX's operator (`means_standard`)."""
    standard = onnx.NodeProto()
    standard.CopyFrom(node)
    standard.domain = ""
    return standard


def inline_functions(label: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of its own functions inlined; `label` names the model in messages.

    The nodes of a function become nodes of the graph, without names. Raises InvalidModelError if ONNX's inliner fails.
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


def infer_shapes(model: onnx.ModelProto, *, follow: bool) -> onnx.ModelProto:
    """The model with inferred shapes of its tensors; with `follow`, ONNX's inference also propagates values.

    Raises InferenceError or ValueError if ONNX cannot infer the shapes.
    """
    nodes = model.graph.node
    named = [place for place, node in enumerate(nodes) if _is_named_as_standard(node)]
    domains = dict.fromkeys(named, "") | dict.fromkeys(_without_shape(nodes), HIDDEN)
    with in_domains(model, domains) as before:
        _write_defaults(model)
        # Types are not checked: ONNX's own operators of these names lack some of the types.
        inferred = shape_inference.infer_shapes(
            model, check_type=not named, strict_mode=True, data_prop=follow
        )
    set_domains(inferred, before)
    return inferred


def _is_named_as_standard(node: onnx.NodeProto) -> bool:
    return node.domain == CONTRIBUTED and node.op_type in CONTRIBUTED_STANDARD


def _without_shape(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Indices of the nodes at which ONNX's shape inference may crash (`needs_a_shape`). Empty for a model in which all
    operators are ONNX's own: their results always have shapes."""
    found = [place for place, node in enumerate(nodes) if needs_a_shape(node)]
    if not found or all(node.domain in STANDARD or _is_named_as_standard(node) for node in nodes):
        return []
    return found


def needs_a_shape(node: onnx.NodeProto) -> bool:
    """Whether a node is of an operator in `NEEDS_A_SHAPE`, in ONNX's own domain."""
    return node.op_type in NEEDS_A_SHAPE and node.domain in STANDARD


@contextmanager
def in_domains(model: onnx.ModelProto, domains: Mapping[int, str]) -> Iterator[dict[int, str]]:
    """A context in which each node i in `domains` has the domain `domains`[i]; yields the old domains by index."""
    before = {place: model.graph.node[place].domain for place in domains}
    set_domains(model, domains)
    try:
        yield before
    finally:
        set_domains(model, before)


def set_domains(model: onnx.ModelProto, domains: Mapping[int, str]) -> None:
    """Sets the domain of each node i in `domains` to `domains`[i]. Declares the domain `HIDDEN` in the model's opset
    imports if a node has it, and removes the declaration otherwise."""
    for place, domain in domains.items():
        model.graph.node[place].domain = domain
    imports = [entry for entry in model.opset_import if entry.domain == HIDDEN]
    for entry in imports:
        model.opset_import.remove(entry)
    if HIDDEN in domains.values():
        model.opset_import.add(domain=HIDDEN, version=1)


def _write_defaults(model: onnx.ModelProto) -> None:
    """Writes default values of attributes into the nodes for which ONNX's shape inference (1.23) does not use the
    default values. Such a node has an operator in `DEFAULTS_MISREAD`, or its shapes are inferred from ONNX's function
    body."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        if node.domain not in STANDARD:
            continue
        schema = schema_of(node.op_type, "", versions.get(node.domain, versions.get("", 1)))
        if schema is None:
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
