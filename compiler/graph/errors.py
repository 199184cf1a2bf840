"""Mistakes in a model file, told with the file, the node and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

from vdla.util.errors import UserError


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


class InvalidNodeError(NodeError, InvalidModelError):
    """A node that no target can take, see `InvalidModelError`."""


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
