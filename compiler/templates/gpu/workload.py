"""Workloads on GPUs: complete descriptions of kernels' programs, as data, from which another process can build the same
programs.

Schedules are tuned and recorded for a workload. A workload is the whole program of a node, with all fused operators:
the program that the template schedules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Literal, TypeAlias, get_args

from ...ir.program_json import program_to_dict
from ...ir.stmt import Program
from ...ir.types import HALVES, DType
from ...te.blocks import Window
from ..cpu.read_workload import read_fields
from ..cpu.workload import expression_refusal
from ..workload_limits import MOST_ELEMENTS, WorkloadError
from .flat import nests
from .row_operator import RowOperator, row_operator_from_dict

CudaTemplate: TypeAlias = Literal[
    "gemm_cuda",
    "gemv_cuda",
    "gemm_mma_cuda",
    "gemm_wgmma_cuda",
    "conv2d_cuda",
    "conv2d_direct_cuda",
    "winograd_cuda",
    "conv_transpose_cuda",
    "depthwise_cuda",
    "pool_cuda",
    "elementwise_cuda",
    "generic_cuda",
    "rows_cuda",
]
"""Names of the templates that have a space of knobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWorkload:
    """The workload of any tensor expression that a template with knobs schedules. The parameters of the expression are
    floats of 16 or 32 bits; the expression writes only the last parameter.

    `constants`: names of parameters that are packed ahead, in the order of the parameters. `window`: the window of a
    depthwise convolution. `rows`: a row operator, whose program depends on the knobs; `expression` is then the plain
    program, without fused operators.
    """

    template: CudaTemplate
    window: Window | None = None
    constants: tuple[str, ...] = ()
    rows: RowOperator | None = None
    expression: Program

    def program(self) -> Program:
        """The tensor expression of the workload, a program without a schedule."""
        return self.expression

    def obstacle(self) -> str | None:
        """The reason why the workload cannot be measured; None if it can."""
        types = (DType.FLOAT32, *HALVES)
        if (reason := expression_refusal(self.expression, self.constants, types)) is not None:
            return reason
        if large := next((p for p in self.expression.parameters if prod(p.shape) > MOST_ELEMENTS), None):
            return f"{large.name} has more than {MOST_ELEMENTS} elements"
        if (self.window is None) == (self.template == "depthwise_cuda"):
            return "a workload has a window if, and only if, its template is depthwise_cuda"
        if (self.rows is None) == (self.template == "rows_cuda"):
            return "a workload has rows if, and only if, its template is rows_cuda"
        if self.rows is not None and self.rows.plain() != self.expression:
            return "the expression differs from the program of the operator in rows"
        if self.template == "elementwise_cuda" and len(nests(self.expression)) != 1:
            return "element-wise knobs need a program of one loop nest"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal workload."""
        return {
            "template": self.template,
            "window": None if self.window is None else json.loads(json.dumps(asdict(self.window))),
            "constants": list(self.constants),
            "rows": None if self.rows is None else json.loads(json.dumps(asdict(self.rows))),
            "expression": program_to_dict(self.expression),
        }


def workload_of(
    template: CudaTemplate | None,
    program: Program,
    constants: Sequence[str] = (),
    window: Window | None = None,
) -> CudaWorkload | None:
    """The workload of a node's program; None if it cannot be measured, or if it has no template with knobs. The other
    arguments are fields of `CudaWorkload`.
    """
    if template is None:
        return None
    workload = CudaWorkload(template=template, window=window, constants=tuple(constants), expression=program)
    return workload if workload.obstacle() is None else None


def workload_of_rows(operator: RowOperator) -> CudaWorkload | None:
    """The workload of a row operator; None if it cannot be measured."""
    workload = CudaWorkload(template="rows_cuda", rows=operator, expression=operator.plain())
    return workload if workload.obstacle() is None else None


def workload_from_dict(values: Mapping[str, Any]) -> CudaWorkload:
    """The workload that a JSON object describes. Raises WorkloadError, which names the field, for any other object."""
    template = values.get("template")
    if template not in get_args(CudaTemplate):
        known = ", ".join(get_args(CudaTemplate))
        raise WorkloadError(f"no template with knobs for GPUs is called {template!r}; there are {known}")
    rows = values.get("rows")
    operator = None if rows is None else row_operator_from_dict(rows)
    # Nested fields are read by their own functions.
    workload: CudaWorkload = read_fields(
        CudaWorkload, f"{template}", {**values, "rows": None} if "rows" in values else values
    )
    workload = replace(workload, rows=operator)
    if (reason := workload.obstacle()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    return workload
