"""Workloads on processors: complete descriptions of operators, as data, from which another process can build the same
operators.

A workload is the whole program of a kernel, with all fused operators. Schedules are tuned and recorded for a workload;
sketch rules (rules that generate schedules) make its search space.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...ir.regions import write_buffers
from ...ir.stmt import Program
from ...ir.types import DType
from ...ir.work import statement_runs

Operator: TypeAlias = Literal[
    "conv2d",
    "dense",
    "matmul",
    "softmax",
    "normalization",
    "reduction",
    "pool",
    "depthwise",
    "conv_transpose",
    "elementwise",
    "generic",
]
"""Names of operators whose knobs come from sketch rules (rules that generate schedules); "generic" stands for all
operators without a name of their own.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchCpu:
    """A workload for any tensor expression, scheduled by sketch rules (rules that generate schedules).

    The expression's parameters are float32; it writes only the last parameter. `constants`: names of parameters that
    may be packed ahead, in the order of the parameters.
    """

    template: Literal["sketch_cpu"] = "sketch_cpu"
    operator: Operator
    constants: tuple[str, ...] = ()
    expression: Program

    def program(self) -> Program:
        """The tensor expression of the workload, a program without a schedule."""
        return self.expression

    def refusal(self) -> str | None:
        """The reason why the workload cannot be measured; None if it can."""
        return expression_refusal(self.expression, self.constants)

    def worth_tuning(self) -> bool:
        """Whether the workload can be measured, is not too small to tune, and not too long for a record."""
        if self.refusal() is not None or statement_runs(self.expression) < LEAST_RUNS:
            return False
        return len(json.dumps(self.to_dict()["expression"])) <= MOST_TEXT

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal workload."""
        from ...ir.program_json import program_to_dict

        return {
            "template": self.template,
            "operator": self.operator,
            "constants": list(self.constants),
            "expression": program_to_dict(self.expression),
        }


CpuWorkload: TypeAlias = SketchCpu
LEAST_RUNS = 4096
"""Least number of statement executions of a program that is tuned: with fewer, a kernel takes only a microsecond or
two.
"""
MOST_TEXT = 1 << 15
"""Largest number of characters of a program as JSON: each tuning record contains it, and the length of a record's line
is limited.
"""
MOST_RUNS = 1 << 36
"""Largest number of statement executions of a program that is measured: about a minute at a nanosecond each."""


def expression_refusal(
    program: Program, constants: Sequence[str], types: Sequence[DType] = (DType.FLOAT32,)
) -> str | None:
    """The reason why a program cannot be measured, given the parameters `constants` that may be packed ahead; None if
    it can. `types`: types of parameters for which there are random values.
    """
    names = [p.name for p in program.parameters]
    if wrong := next((p for p in program.parameters if p.dtype not in types), None):
        return (
            f"parameter {wrong.name} is {wrong.dtype}; candidates are timed on random values, which must be "
            + " or ".join(types)
        )
    if {b.name for b in write_buffers(program.body)} & set(names) != {names[-1]}:
        return f"the program must write its last parameter, {names[-1]}, and no other parameter"
    if [name for name in names[:-1] if name in constants] != list(constants):
        return (
            f"constants ({', '.join(constants)}) must be names among {', '.join(names[:-1])}, in this order"
        )
    try:
        runs = statement_runs(program)
    except ValueError as error:
        return str(error)
    return (
        f"its statements run {runs} times, more than the {MOST_RUNS} that can be measured"
        if runs > MOST_RUNS
        else None
    )
