"""Errors about a model file. Their messages name the file and the node, and suggest a remedy ("way out")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from vdla.util.errors import UserError

MOST_LISTED = 10
"""The largest number of nodes that one message lists."""
AGAIN = "export the model again"
"""The remedy, in messages, for a model that contradicts itself."""


class ModelError(UserError):
    """Raised for a model that cannot be read, or that needs a feature the compiler does not support."""


class InvalidModelError(ModelError):
    """Raised for a model that no target can compile: it contradicts itself, or a part of it is missing or undefined."""


class ContradictionError(InvalidModelError):
    """Raised for a model whose shapes or types contradict each other; `reason` names the shapes or types."""

    def __init__(self, source: str, reason: str, way_out: str = "export the model again") -> None:
        super().__init__(f"{source}: its shapes or types contradict each other: {reason}; {way_out}")
        self.reason = reason


class NodeError(ModelError):
    """Raised for a node that is not supported. `node`: its name (or the importer's name for an unnamed node);
    `problem`: the reason.
    """

    def __init__(self, source: str, node: str, op_type: str, problem: str, way_out: str) -> None:
        super().__init__(f"{source}: node '{node}' ({op_type}): {problem}; {way_out}")
        self.node = node
        self.op_type = op_type
        self.problem = problem
        self.way_out = way_out

    def of_node(self, source: str, node: NamedNode) -> NodeError:
        """A copy of this error, with the same problem and remedy, for `node` of the model `source`."""
        return type(self)(source, node.name, node.op_type, self.problem, self.way_out)


class NodesError(NodeError):
    """Raised for several nodes that are not supported; `parts`: an error for each node.

    The message lists the first `MOST_LISTED` nodes, each on a line. The other attributes have the values of the first
    error's attributes.
    """

    def __init__(self, source: str, parts: Sequence[NodeError]) -> None:
        first = parts[0]
        super().__init__(source, first.node, first.op_type, first.problem, first.way_out)
        self.parts = tuple(parts)
        rest = f", of which the first {MOST_LISTED} are" if len(parts) > MOST_LISTED else ""
        lines = [f"{source}: {len(parts)} nodes are not supported{rest}:"]
        ways_out: set[str] = set()
        for part in parts[:MOST_LISTED]:
            way_out = "the way out is the same" if part.way_out in ways_out else part.way_out
            ways_out.add(part.way_out)
            lines.append(f"  node '{part.node}' ({part.op_type}): {part.problem}; {way_out}")
        self._lines = tuple(lines)
        self.args = ("\n".join(lines),)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message: a heading, then one line for each node."""
        return self._lines


class InvalidNodeError(NodeError, InvalidModelError):
    """Raised for a node that no target can compile: it contradicts itself or the model."""


class ProcessorsOnlyError(NodeError):
    """Raised for a node that an integer graph cannot have, but that processors and GPUs compute as a float operator."""


class ParameterError(NodeError):
    """Raised for a node that can be compiled only if the values of some model inputs (`inputs`) are known, for example
    because they decide shapes.
    """

    def __init__(
        self, source: str, node: str, op_type: str, problem: str, way_out: str, inputs: tuple[str, ...]
    ) -> None:
        super().__init__(source, node, op_type, problem, way_out)
        self.inputs = inputs

    def of_node(self, source: str, node: NamedNode) -> NodeError:
        """A copy of this error, with the same problem and remedy, for `node` of the model `source`."""
        return ParameterError(source, node.name, node.op_type, self.problem, self.way_out, self.inputs)


def parameters_of(error: Exception) -> tuple[str, ...]:
    """Names of the model inputs that must be known at compile time, from `error` (a ParameterError) or from all
    ParameterErrors in `error` (a NodesError).

    Empty for any other error. Empty also if a NodesError begins with another error, which may have caused the later
    ones.
    """
    parts = error.parts if isinstance(error, NodesError) else (error,)
    if not isinstance(parts[0], ParameterError):
        return ()
    inputs = (name for part in parts if isinstance(part, ParameterError) for name in part.inputs)
    return tuple(dict.fromkeys(inputs))


class NamedNode(Protocol):
    """Name and operator type of a node, for messages about it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def op_type(self) -> str: ...  # noqa: D102


@dataclass(slots=True, kw_only=True)
class NodeErrors:
    """Raises errors about nodes of a model; `source` names the model in messages."""

    source: str

    def fail(self, node: NamedNode, problem: str, way_out: str) -> NoReturn:
        """Raises a NodeError: this import does not support the node."""
        raise node_error(self.source, node.name, node.op_type, problem, way_out)

    def refuse(self, node: NamedNode, problem: str, way_out: str = AGAIN) -> NoReturn:
        """Raises an InvalidNodeError: no target can compile the node, because it contradicts itself or the model."""
        raise invalid_node_error(self.source, node.name, node.op_type, problem, way_out)


def node_error(source: str, node: str, op_type: str, problem: str, way_out: str) -> NodeError:
    """An error in the form of all messages about nodes: `FILE: node 'NAME' (OP): PROBLEM; WAY OUT`."""
    return NodeError(source, node, op_type, problem, way_out)


def invalid_node_error(source: str, node: str, op_type: str, problem: str, way_out: str) -> InvalidNodeError:
    """An error for a node that no target can compile, in the form of all messages about nodes: `FILE: node 'NAME' (OP):
    PROBLEM; WAY OUT`.
    """
    return InvalidNodeError(source, node, op_type, problem, way_out)
