"""Scalar functions (`Call`) as code."""

from __future__ import annotations

from ...ir.types import DType
from .errors import LoweringError
from .text import Block, Value


def call_function(
    block: Block, declarations: set[str], name: str, arguments: list[Value], dtype: DType
) -> Value:
    """The value of `name(arguments)`, lane by lane; LoweringError for functions without code on this target."""
    raise LoweringError(f"function {name} has no code on this target")
