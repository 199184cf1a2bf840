"""Rows of the importers' tables: what reads the nodes of an operator, and which of their attributes it reads.

A row refuses a node with an attribute that the row does not name, unless the attribute has the default value of the
operator. So an attribute that nobody reads changes nothing, or is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Literal, NoReturn, Protocol, TypeVar

from .onnx_attributes import NO_DEFAULT, default_value, schema_attributes
from .onnx_context import OnnxNode


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


def _unread(node: OnnxNode, rows: Iterable[Row[Any, Any]], opset: int) -> Iterator[str]:
    """The attributes of a node that none of `rows` reads, and whose values are not the operator's defaults."""
    if not node.attributes:
        return
    known = schema_attributes(node.op_type, node.domain, opset)
    read: set[str] = set()
    for one in rows:
        read |= one.idle | (frozenset(known or ()) if one.reads is None else one.reads)
    for name, value in node.attributes.items():
        if name not in read and value != default_value(node.op_type, node.domain, name, opset):
            yield name


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="backslashreplace"))
    text = repr(value) if isinstance(value, int | float | str | list) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."
