"""Imports the chosen branch of an If into an integer graph. The condition must be known at compilation."""

from __future__ import annotations

from ..attributes import OnnxNode
from ..float_operators.control import import_branch
from ..integer_context import ImportContext


def import_if(context: ImportContext, node: OnnxNode) -> None:
    """Binds the outputs of an If to the results of the branch that its condition selects."""
    for name, result in zip(node.outputs, import_branch(context, node), strict=True):
        if result not in context.values:
            context.refuse(node, f"its result '{result}' is produced by no node")
        if name:
            context.values[name] = context.values[result]
