"""Mistakes in a model file, told with the file, the node and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from vdla.util.errors import UserError

MOST_TOLD = 10
"""Nodes that one message has."""


class ModelError(UserError):
    """A model that cannot be read, or that asks for something the compiler does not support."""


class InvalidModelError(ModelError):
    """A model that no target can take: it contradicts itself, or something of it is missing or has no meaning."""


class ContradictionError(InvalidModelError):
    """A model whose shapes or types contradict each other, and how."""

    def __init__(self, source: str, reason: str, way_out: str = "export it again") -> None:
        super().__init__(f"{source}: its shapes or types contradict each other: {reason}; {way_out}")
        self.reason = reason


class NodeError(ModelError):
    """A node that is not supported: its name, or what the importer calls it where it has none, and what is wrong."""

    def __init__(self, source: str, node: str, op_type: str, problem: str, way_out: str) -> None:
        super().__init__(f"{source}: node '{node}' ({op_type}): {problem}; {way_out}")
        self.node = node
        self.op_type = op_type
        self.problem = problem
        self.way_out = way_out


class NodesError(NodeError):
    """Several nodes that are not supported: `parts`. The message has the first ones, each on a line of its own; the
    attributes are those of the first node's error."""

    def __init__(self, source: str, parts: Sequence[NodeError]) -> None:
        first = parts[0]
        super().__init__(source, first.node, first.op_type, first.problem, first.way_out)
        self.parts = tuple(parts)
        rest = f", of which the first {MOST_TOLD} are" if len(parts) > MOST_TOLD else ""
        lines = [f"{source}: {len(parts)} nodes are not supported{rest}:"]
        told: set[str] = set()
        for part in parts[:MOST_TOLD]:
            way_out = "the way out is the same" if part.way_out in told else part.way_out
            told.add(part.way_out)
            lines.append(f"  node '{part.node}' ({part.op_type}): {part.problem}; {way_out}")
        self._lines = tuple(lines)
        self.args = ("\n".join(lines),)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message: what it is about, then nodes."""
        return self._lines


class InvalidNodeError(NodeError, InvalidModelError):
    """A node that no target can take, see `InvalidModelError`."""


class ParameterError(NodeError):
    """A node that needs the values of `inputs` of the model when it is compiled, as they decide shapes, for example."""

    def __init__(
        self, source: str, node: str, op_type: str, problem: str, way_out: str, inputs: tuple[str, ...]
    ) -> None:
        super().__init__(source, node, op_type, problem, way_out)
        self.inputs = inputs


def parameters_of(error: Exception) -> tuple[str, ...]:
    """The inputs of a model whose values it needs when it is compiled, if that is what an error says first: refusals of
    nodes behind may be its consequences."""
    parts = error.parts if isinstance(error, NodesError) else (error,)
    if not isinstance(parts[0], ParameterError):
        return ()
    inputs = (name for part in parts if isinstance(part, ParameterError) for name in part.inputs)
    return tuple(dict.fromkeys(inputs))


class NamedNode(Protocol):
    """A node, as far as messages about it go."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def op_type(self) -> str: ...  # noqa: D102


@dataclass(slots=True, kw_only=True)
class NodeErrors:
    """What whoever reads a model's nodes raises about them; messages call the model `source`."""

    source: str

    def fail(self, node: NamedNode, problem: str, way_out: str) -> NoReturn:
        """Raises the NodeError of a node that this import does not take."""
        raise node_error(self.source, node.name, node.op_type, problem, way_out)

    def refuse(self, node: NamedNode, problem: str, way_out: str) -> NoReturn:
        """Raises the InvalidNodeError of a node that nobody can take, since it contradicts itself or the model."""
        raise invalid_node_error(self.source, node.name, node.op_type, problem, way_out)


def node_error(source: str, node: str, op_type: str, problem: str, way_out: str) -> NodeError:
    """The one form of a message about a node: `FILE: node 'NAME' (OP): PROBLEM; WAY OUT`."""
    return NodeError(source, node, op_type, problem, way_out)


def invalid_node_error(source: str, node: str, op_type: str, problem: str, way_out: str) -> InvalidNodeError:
    """The message of `node_error` about a node that no target can take."""
    return InvalidNodeError(source, node, op_type, problem, way_out)
