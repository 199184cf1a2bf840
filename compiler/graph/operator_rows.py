"""Rows of the importers' tables: what reads the nodes of an operator, and which of their attributes it reads.

A row refuses a node with an attribute that the row does not name, unless the attribute has the default value of the
operator. So an attribute that nobody reads changes nothing, or is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Generic, Literal, NoReturn, Protocol, TypeVar

import onnx
from onnx import defs

from .errors import invalid_node_error
from .onnx_context import OnnxNode, read_node

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""
CONTRIBUTED = "com.microsoft"
"""The domain of ONNX Runtime's own operators, of which ONNX has no schemas."""
CONTRIBUTED_DEFAULTS: Mapping[str, Any] = MappingProxyType({"channels_last": 0})
"""Default values of attributes of ONNX Runtime's own operators, beside those that rows read."""
NO_DEFAULT = object()
"""What an attribute that has no default value equals: nothing."""


class RowContext(Protocol):
    """What a row needs of an import: the model's opset, and how mistakes are told."""

    @property
    def opset(self) -> int:
        """The version of the standard operators that the model is of."""
        ...

    def fail(self, node: OnnxNode, problem: str, way_out: str) -> NoReturn:
        """Raises the NodeError of a node that this import does not take."""
        ...


Context = TypeVar("Context", bound=RowContext, contravariant=True)
Result = TypeVar("Result", covariant=True)
Kind = Literal[
    "quantized", "float", "either", "plain", "steps", "contributed", "control", "integers", "blocked"
]
"""What a row makes of a node. quantized: nodes of the integer graph. float: nodes of the float graph. either: another
name or shape, in both. plain: nodes of the float graph for windows that no template has. steps: nodes of ONNX in its
place, in the float graph, for what its float row does not take. contributed: the same of ONNX Runtime's operators.
control: what its bodies make. integers: steps between grids of an operator on integers, in both graphs. blocked: the
operator on blocks of channels as the plain operator, in both."""


@dataclass(frozen=True, slots=True)
class Located:
    """A function of this package by its place, FILE:NAME. The file is imported when the function is called."""

    place: str

    def found(self) -> Callable[..., Any]:
        """The function."""
        module, name = self.place.split(":")
        return getattr(import_module(f"{__package__}.{module}"), name)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function."""
        return self.found()(*arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[Context, Result]):
    """What reads a node of an operator. It reads the attributes `reads`, all that the operator's schema has where
    `reads` is None; the attributes `idle` have no effect on what it computes.

    `images`: it takes images (N, C, H, W); lines (N, C, L) become images before, and results lines again. `behind`: it
    is asked where an input of the node is one of these values (`onnx_values`), pending operations included; empty:
    always. A row that returns False leaves the node to the next one.
    """

    kind: Kind
    function: Callable[[Context, OnnxNode], Result]
    reads: frozenset[str] | None
    idle: frozenset[str] = frozenset()
    images: bool = False
    behind: frozenset[str] = frozenset()

    def __call__(self, context: Context, node: OnnxNode) -> Result:
        """Reads a node. Raises NodeError where the node has an attribute that the row does not read."""
        refuse_unread(context, node, [self])
        return self.function(context, node)

    def takes(self, node: OnnxNode, opset: int) -> bool:
        """Whether a node has no attribute but those that the row reads, and default values."""
        return not any(_unread(node, [self], opset))


def refuse_unread(context: RowContext, node: OnnxNode, rows: Iterable[Row[Any, Any]]) -> None:
    """Raises the NodeError of a node with an attribute that none of `rows` reads."""
    for name in _unread(node, rows, context.opset):
        default = default_value(node.op_type, node.domain, name, context.opset)
        context.fail(
            node,
            f"has the attribute {name} = {_shown(node.attributes[name])}, which is not supported",
            "export the model without it"
            if default is NO_DEFAULT
            else f"supported is its default, {_shown(default)}: export the model with that",
        )


def refuse_unknown(label: str, model: onnx.ModelProto) -> None:
    """Raises the InvalidNodeError, which begins with `label`, of a node of ONNX's own domain with an attribute that the
    operator does not have in the model's opset, also of nodes inside of other nodes' bodies."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)
    for number, proto in nodes_of(model.graph):
        names = _schema_attributes(proto.op_type, proto.domain, opset)
        for entry in proto.attribute:
            if names is not None and entry.name not in names:
                node = read_node(proto, number)
                raise invalid_node_error(
                    label,
                    node.name,
                    node.op_type,
                    f"has the attribute {entry.name}, which the operator does not have in opset {opset}",
                    "remove the attribute, or export the model again",
                )


def default_value(operator: str, domain: str, attribute: str, opset: int) -> Any:
    """The default value of an operator's attribute in a version of the standard, as Python has it; `NO_DEFAULT` where
    the operator, or a default of the attribute, is not known."""
    if domain == CONTRIBUTED and _schema_attributes(operator, domain, opset) is None:
        return CONTRIBUTED_DEFAULTS.get(attribute, NO_DEFAULT)
    return (_schema_attributes(operator, domain, opset) or {}).get(attribute, NO_DEFAULT)


def _unread(node: OnnxNode, rows: Iterable[Row[Any, Any]], opset: int) -> Iterator[str]:
    """The attributes of a node that none of `rows` reads, and whose values are not the operator's defaults."""
    if not node.attributes:
        return
    known = _schema_attributes(node.op_type, node.domain, opset)
    read: set[str] = set()
    for one in rows:
        read |= one.idle | (frozenset(known or ()) if one.reads is None else one.reads)
    for name, value in node.attributes.items():
        if name not in read and value != default_value(node.op_type, node.domain, name, opset):
            yield name


@cache
def _schema_attributes(operator: str, domain: str, opset: int) -> Mapping[str, Any] | None:
    """The attributes that an operator has in a version of the standard, with their default values; None for an operator
    that the standard does not have."""
    try:
        schema = defs.get_schema(operator, opset, "" if domain in STANDARD else domain)
    except defs.SchemaError:
        return None
    return MappingProxyType(
        {
            name: onnx.helper.get_attribute_value(attribute.default_value)
            if attribute.default_value.name
            else NO_DEFAULT
            for name, attribute in schema.attributes.items()
        }
    )


def nodes_of(graph: onnx.GraphProto) -> Iterator[tuple[int, onnx.NodeProto]]:
    """The nodes of a graph and of the bodies in them, each with its place in its graph."""
    for number, node in enumerate(graph.node):
        yield number, node
        for entry in node.attribute:
            for body in (*([entry.g] if entry.HasField("g") else ()), *entry.graphs):
                yield from nodes_of(body)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="backslashreplace"))
    text = repr(value) if isinstance(value, int | float | str | list) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."
