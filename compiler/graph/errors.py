"""Mistakes in a model file, told with the file, the node and the way out."""

from __future__ import annotations

from vdla.isa.errors import UserError


class ModelError(UserError):
    """A model that cannot be read, or that asks for something the compiler does not support."""


def node_error(source: str, node: str, op_type: str, problem: str, way_out: str) -> ModelError:
    """The one form of a message about a node: `FILE: node 'NAME' (OP): PROBLEM; WAY OUT`."""
    return ModelError(f"{source}: node '{node}' ({op_type}): {problem}; {way_out}")
