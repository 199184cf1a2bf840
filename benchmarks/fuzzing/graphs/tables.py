"""The operators that random graphs may contain: all that the importers' tables have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from vdla.compiler.frontends.onnx import table as operator_table
from vdla.compiler.frontends.onnx.attributes import CONTRIBUTED
from vdla.compiler.frontends.onnx.operator_rows import Kind, Row


class Operator(NamedTuple):
    """An operator: its domain ("" for ONNX's own) and its name."""

    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain}:{self.name}" if self.domain else self.name


QUANTIZED: tuple[Kind, ...] = ("quantized", "either", "both", "integers")
"""Kinds of rows (one row for each operator) in the importers' tables that apply to quantized networks."""
FLOATING: tuple[Kind, ...] = ("float", "either", "both", "plain", "steps", "contributed", "control")
"""Kinds of rows (one row for each operator) in the importers' tables that apply to networks that are not quantized."""
_THEIRS: tuple[Kind, ...] = ("integers", "contributed")
"""Kinds of rows in the importers' tables for operators of ONNX Runtime's own domain, except for the operators in
`_BOTH`.
"""
_BOTH = ("QLinearConv", "QLinearMatMul")
"""Operators on integers that exist in ONNX Runtime's domain and in ONNX's own."""
WITHOUT_ORACLE = frozenset(
    (Operator(CONTRIBUTED, "QLinearMatMul"), Operator(CONTRIBUTED, "QLinearReduceMean"))
)
"""Operators for which ONNX Runtime (1.32) has no kernel on processors and ONNX no reference implementation."""


def float_operators() -> tuple[Operator, ...]:
    """The operators that the importers read in networks that are not quantized, sorted."""
    return _with_oracle(_operators(FLOATING))


def quantized_operators() -> tuple[Operator, ...]:
    """The operators that the importers read in quantized networks, sorted."""
    return _with_oracle(_operators(QUANTIZED))


def rows_of(operator: Operator) -> tuple[Row, ...]:
    """All rows of `operator` in the importers' tables of quantized and of other networks."""
    return operator_table.rows_of(operator.domain, operator.name, *QUANTIZED, *FLOATING)


def _operators(kinds: tuple[Kind, ...]) -> list[Operator]:
    theirs = set(operator_table.operators(*_THEIRS))
    names = set(operator_table.operators(*kinds))
    found = {Operator(CONTRIBUTED, name) for name in names & theirs}
    found |= {Operator("", name) for name in names if name not in theirs or name in _BOTH}
    return sorted(found)


def _with_oracle(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    return tuple(operator for operator in operators if operator not in WITHOUT_ORACLE)


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {str(operator): operator for kinds in (FLOATING, QUANTIZED) for operator in _operators(kinds)}
)
"""All operators by their text (DOMAIN:NAME, or NAME for ONNX's own), including operators whose right results cannot be
computed.
"""
