"""Workloads on processors: complete descriptions of operators, as data, from which another process can build the same
operators.

Schedules are tuned and recorded for a workload. If its template has knobs, its tensor expression is the plain operator:
operators that a network fuses beyond the parts of an `Epilogue` change neither loops nor good knobs. If sketch rules
(rules that generate schedules) make the space (`SketchCpu`), the workload is the whole program, with all fused
operators.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from ...ir.regions import write_buffers
from ...ir.stmt import Program
from ...ir.types import DType
from ...ir.work import statement_runs
from ...te.blocks import Window
from ...te.ops.blocked_convolution import FloatSums, blocked_convolution
from ...te.ops.convolution import Convolution
from ...te.ops.sums import Activation, Epilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Which parts a sum's epilogue has: bias, second operand, activation. An activation's limits are left out, since
    they do not change the time.
    """

    bias: bool = False
    operand: bool = False
    activation: Activation = "none"

    @staticmethod
    def of(epilogue: Epilogue) -> Parts:
        """Which parts an epilogue has."""
        return Parts(bias=epilogue.bias, operand=epilogue.operand, activation=epilogue.activation)

    @property
    def epilogue(self) -> Epilogue:
        """An epilogue that has these parts."""
        return Epilogue(bias=self.bias, operand=self.operand, activation=self.activation)


class _Described:
    """Base class of workloads: conversion to JSON."""

    __slots__ = ()

    def to_dict(self: Any) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal workload."""
        return json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dCpu(_Described):
    """The workload of a convolution on blocks of channels (`te.ops.blocked_convolution`), scheduled by template
    `conv2d_cpu`. `height` and `width` are results of `flattened`.
    """

    template: Literal["conv2d_cpu"] = "conv2d_cpu"
    batch: int
    channels: int
    height: int
    width: int
    filters: int
    groups: int = 1
    window: Window
    block_in: int
    block_out: int
    parts: Parts = field(default_factory=Parts)

    def program(self, epilogue: Epilogue | None = None) -> Program:
        """The tensor expression, with an epilogue that has the workload's parts (bias, second operand, activation).
        Raises ValueError if the sizes are inconsistent.
        """
        shape = Convolution(
            batch=self.batch,
            channels=self.channels,
            height=self.height,
            width=self.width,
            filters=self.filters,
            window=self.window,
            groups=self.groups,
        )
        sums = FloatSums(epilogue=epilogue or self.parts.epilogue)
        return blocked_convolution(shape, block_in=self.block_in, block_out=self.block_out, sums=sums)


Operator: TypeAlias = Literal[
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
class SketchCpu(_Described):
    """A workload for any tensor expression, scheduled by sketch rules (rules that generate schedules). (Without knob
    values, a transposed convolution is scheduled by its template.)

    Its parameters are float32, and it writes only the last one. `constants`: names of parameters that may be packed
    ahead, in the order of the parameters. `window`: the window of a transposed convolution.
    """

    template: Literal["sketch_cpu"] = "sketch_cpu"
    operator: Operator
    window: Window | None = None
    constants: tuple[str, ...] = ()
    expression: Program

    def program(self) -> Program:
        """The tensor expression."""
        return self.expression

    def refusal(self) -> str | None:
        """The reason why the workload cannot be measured; None if it can."""
        if (reason := expression_refusal(self.expression, self.constants)) is not None:
            return reason
        if (self.window is None) == (self.operator == "conv_transpose"):
            return "a workload must have a window if its operator is conv_transpose, and otherwise none"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal workload."""
        from ...ir.program_json import program_to_dict

        return {
            "template": self.template,
            "operator": self.operator,
            "window": None if self.window is None else json.loads(json.dumps(asdict(self.window))),
            "constants": list(self.constants),
            "expression": program_to_dict(self.expression),
        }


CpuWorkload: TypeAlias = Conv2dCpu | SketchCpu
MOST_RUNS = 1 << 36
"""Largest number of statement executions of a program that is measured: about a minute at a nanosecond each."""


def expression_refusal(program: Program, constants: Sequence[str]) -> str | None:
    """The reason why a program cannot be measured, given the parameters `constants` that may be packed ahead; None if
    it can.
    """
    names = [p.name for p in program.parameters]
    if wrong := next((p for p in program.parameters if p.dtype is not DType.FLOAT32), None):
        return f"parameter {wrong.name} is {wrong.dtype}; candidates are timed on random values, which must be float32"
    if {b.name for b in write_buffers(program.body)} & set(names) != {names[-1]}:
        return f"the program must write its last parameter, {names[-1]}, and no other parameter"
    if [name for name in names[:-1] if name in constants] != list(constants):
        return f"constants must be some of {', '.join(names[:-1])}, in this order"
    try:
        runs = statement_runs(program)
    except ValueError as error:
        return str(error)
    return (
        f"its statements run {runs} times, at most {MOST_RUNS} can be measured" if runs > MOST_RUNS else None
    )
