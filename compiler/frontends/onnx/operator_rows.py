"""Rows of the table of operators. A row has a function that imports nodes of an operator, and the names of the
attributes that the function reads.

If a node has an attribute that the row does not name, with a value other than the default, the row rejects the node. So
no attribute is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NoReturn, Protocol

from .attributes import NO_DEFAULT, OnnxNode, default_value, schema_attributes


class RowContext(Protocol):
    """Members of an importer that rows of the table use: the model's opset, and a function that raises NodeErrors."""

    @property
    def opset(self) -> int:
        """The model's opset: the version of ONNX's own operators."""
        ...

    def fail(self, node: OnnxNode, problem: str, way_out: str) -> NoReturn:
        """Raises a NodeError: this import does not support the node because of `problem`; `way_out` is the remedy."""
        ...


Kind = Literal[
    "quantized", "float", "either", "both", "plain", "steps", "contributed", "control", "integers", "blocked"
]
"""Kind of a row of the operator table: how the row's function imports an ONNX node, and for which graphs.

For integer graphs: "quantized" adds nodes. For float graphs: "float" adds nodes; "plain" adds nodes for convolutions
and pools that have no kernel template; "steps" replaces a node that the float row does not support by simpler ONNX
nodes, which are then imported; "contributed" does the same for operators of ONNX Runtime. For either graph: "both" adds
nodes; "either" gives a tensor another name or shape; "control" imports the nodes of subgraphs; "integers" replaces an
operator on integers by DequantizeLinear, float operators and QuantizeLinear; "blocked" replaces an operator on blocks
of channels by the operator without blocks."""


@dataclass(frozen=True, slots=True)
class Located:
    """A function of this package, given by the text FILE:NAME. The file is imported when the function is called."""

    place: str

    def found(self) -> Callable[..., Any]:
        """The function that the field `place` names."""
        module, name = self.place.split(":")
        return getattr(import_module(f"{__package__}.{module}"), name)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function with `arguments`."""
        return self.found()(*arguments)


@dataclass(frozen=True, slots=True)
class StepsLocated(Located):
    """A function that writes the ONNX nodes which replace a node, to an object of the class `steps`."""

    steps: Located

    def __call__(self, *arguments: Any) -> Any:
        """The ONNX nodes that the function writes; `arguments`: context and node."""
        context, node = arguments
        steps = self.steps.found()(context=context, node=node)
        self.found()(steps)
        return steps.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the operator table. Its `function` imports nodes of one operator; if it returns False, the next row is
    tried. `reads`: names of the attributes that the function reads (None: all in the operator's schema). `idle`:
    attributes without effect on the result.

    `images`: the function expects images (N, C, H, W); tensors (N, C, L) are first converted to images, and the results
    are converted back. `when`: an operator may have both this row, which replaces nodes by simpler ONNX nodes, and a
    row for float graphs; this function tells whether a node needs this row. `behind`: names of classes of values
    (`values`) or of pending operations; the row is tried only if an input of the node is an instance of one of these
    classes. If `behind` is empty, the row is always tried."""

    kind: Kind
    function: Callable[[Any, OnnxNode], Any]
    reads: frozenset[str] | None
    idle: frozenset[str] = frozenset()
    images: bool = False
    behind: frozenset[str] = frozenset()
    when: Callable[[Any, OnnxNode], object] | None = None

    def needed(self, context: RowContext, node: OnnxNode) -> bool:
        """Whether a node must be replaced by the ONNX nodes that this row writes, according to the function `when`."""
        return self.when is not None and bool(self.when(context, node))

    def __call__(self, context: RowContext, node: OnnxNode) -> Any:
        """Imports a node by the row's function. Raises NodeError if the node has an attribute that the row ignores."""
        refuse_unread(context, node, [self])
        return self.function(context, node)

    def takes(self, node: OnnxNode, opset: int) -> bool:
        """Whether the row reads all attributes of a node that do not have their default values in `opset`."""
        return not any(_unread(node, [self], opset))


def refuse_unread(context: RowContext, node: OnnxNode, rows: Iterable[Row]) -> None:
    """Raises a NodeError if a node has an attribute that no row in `rows` reads."""
    for name in _unread(node, rows, context.opset):
        default = default_value(node.op_type, node.domain, name, context.opset)
        context.fail(
            node,
            f"has the attribute {name} = {_shown(node.attributes[name])}, which is not supported",
            "export the model without it"
            if default is NO_DEFAULT
            else f"export the model with the default, {_shown(default)}",
        )


def _unread(node: OnnxNode, rows: Iterable[Row], opset: int) -> Iterator[str]:
    """The attributes of a node that no row in `rows` reads and whose values are not the operator's defaults."""
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
