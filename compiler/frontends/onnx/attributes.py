"""Reads the nodes of a file. ONNX's schemas give the attributes of operators and their default values, and a model's
attributes are checked.

Some attributes are flags stored as integers. Readers differ in the meaning of 2 or -1, so only 0 and 1 are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import onnx
from onnx import defs

from ...graph.errors import AGAIN, InvalidNodeError, invalid_node_error

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""
CONTRIBUTED = "com.microsoft"
"""The domain of ONNX Runtime's own operators, of which ONNX has no schemas."""
CONTRIBUTED_DEFAULTS: Mapping[str, Any] = MappingProxyType({"channels_last": 0})
"""Default values of attributes of ONNX Runtime's operators. A node may have such an attribute with its default value,
although no row of `table` reads the attribute."""
NO_DEFAULT = object()
"""Marks an attribute without default value; equal to no value."""
FLAGS = frozenset(
    (
        *("allowzero", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive"),
        *("input_forget", "keepdims", "layout", "linear_before_reset", "noop_with_empty_axes", "reverse"),
        *("saturate", "select_last_index", "storage_order", "transA", "transB", "upper"),
    )
)


def check_attributes(label: str, model: onnx.ModelProto) -> None:
    """Raises InvalidNodeError for a node with an attribute that ONNX's schema of the operator does not have in the
    model's opset, or with an attribute of `FLAGS` that is neither 0 nor 1. Nodes of subgraphs are checked, too.
    Operators without a schema may have any attributes. `label` names the model in the message."""
    opset = opset_of(model)
    for number, proto in nodes_of(model.graph):
        names = schema_attributes(proto.op_type, proto.domain, opset)
        for entry in proto.attribute:
            if names is not None and entry.name not in names:
                problem = f"has the attribute {entry.name}, which the operator does not have in opset {opset}"
                raise contradiction(label, proto, number, problem, f"remove the attribute, or {AGAIN}")
            if entry.name in FLAGS and entry.type == entry.INT and entry.i not in (0, 1):
                problem = f"has {entry.name} = {entry.i}, which must be 0 or 1"
                raise contradiction(label, proto, number, problem, "write 0 or 1")


def default_value(operator: str, domain: str, attribute: str, opset: int) -> Any:
    """The default value of an operator's attribute in `opset`, as a Python value; `NO_DEFAULT` if the operator or the
    default is unknown."""
    if domain == CONTRIBUTED and schema_attributes(operator, domain, opset) is None:
        return CONTRIBUTED_DEFAULTS.get(attribute, NO_DEFAULT)
    return (schema_attributes(operator, domain, opset) or {}).get(attribute, NO_DEFAULT)


@cache
def schema_attributes(operator: str, domain: str, opset: int) -> Mapping[str, Any] | None:
    """The attributes of an operator in `opset`, with their default values (`NO_DEFAULT` for an attribute without one);
    None for an operator without schema."""
    schema = schema_of(operator, domain, opset)
    return schema and MappingProxyType(
        {
            name: onnx.helper.get_attribute_value(attribute.default_value)
            if attribute.default_value.name
            else NO_DEFAULT
            for name, attribute in schema.attributes.items()
        }
    )


@cache
def schema_of(operator: str, domain: str, opset: int) -> Any:
    """ONNX's schema (onnx.defs.OpSchema) of an operator in `opset`; None for an operator without one."""
    try:
        return defs.get_schema(operator, opset, "" if domain in STANDARD else domain)
    except defs.SchemaError:
        return None


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set that the model imports; 0 where it imports none."""
    return max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node has as attributes, such as the body of a Loop."""
    for entry in node.attribute:
        if entry.HasField("g"):
            yield entry.g
        yield from entry.graphs


def nodes_of(graph: onnx.GraphProto) -> Iterator[tuple[int, onnx.NodeProto]]:
    """The nodes of a graph and of its subgraphs, each with its index in its own graph."""
    for number, node in enumerate(graph.node):
        yield number, node
        for body in subgraphs(node):
            yield from nodes_of(body)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnnxNode:
    """A node of an ONNX file, with attributes as Python values. A node without a name gets one."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: onnx.NodeProto

    def integer(self, attribute: str, default: int) -> int:
        """An integer attribute's value, or `default` (the operator specification's default) if the node lacks it."""
        return int(self.attributes.get(attribute, default))

    def integers(self, attribute: str, default: Sequence[int]) -> tuple[int, ...]:
        """A list attribute's value, or `default` (the operator specification's default) if the node lacks it."""
        return tuple(int(value) for value in self.attributes.get(attribute, default))

    def text(self, attribute: str, default: str) -> str:
        """A string attribute's value, or `default` (the operator specification's default) if the node lacks it."""
        value = self.attributes.get(attribute, default)
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def contradiction(
    label: str, node: onnx.NodeProto, number: int, problem: str, way_out: str = AGAIN
) -> InvalidNodeError:
    """The error for a node of the model `label` that no target can compile. `number`: the node's index in its graph."""
    return invalid_node_error(label, read_node(node, number).name, node.op_type, problem, way_out)


def read_node(proto: onnx.NodeProto, index: int) -> OnnxNode:
    """Unpacks a NodeProto; a node without a name is named after its type and its `index` in its graph."""
    return OnnxNode(
        name=proto.name or f"{proto.op_type}_{index}",
        op_type=proto.op_type,
        domain=proto.domain,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes={entry.name: onnx.helper.get_attribute_value(entry) for entry in proto.attribute},
        proto=proto,
    )
