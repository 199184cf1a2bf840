"""Workloads on GPUs: kernels' programs described completely, as data, so that another process can build them again.

A workload is what schedules are tuned for and recorded by. It is the whole program of a node, with all that is fused
with it: what its template takes, and what knobs are chosen for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Literal, TypeAlias, get_args

from ...ir.program_json import program_to_dict
from ...ir.stmt import Program
from ...te.blocks import Window
from ..cpu.workload import expression_refusal, read_fields
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
"""The templates that have a space of knobs, as the spaces call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWorkload:
    """Any tensor expression that a template with knobs schedules.

    Its parameters are float32, and the last one is all that it writes. `constants` are the names of those that are
    packed ahead, in the order of the parameters; `window` is a depthwise convolution's. `rows` is an operator of rows,
    whose knobs make programs of their own, `expression` the plain one: what is fused with it does not matter.
    """

    template: CudaTemplate
    window: Window | None = None
    constants: tuple[str, ...] = ()
    rows: RowOperator | None = None
    expression: Program

    def program(self) -> Program:
        """The tensor expression."""
        return self.expression

    def obstacle(self) -> str | None:
        """Why this cannot be measured; None where it can."""
        if (reason := expression_refusal(self.expression, self.constants)) is not None:
            return reason
        if large := next((p for p in self.expression.parameters if prod(p.shape) > MOST_ELEMENTS), None):
            return f"{large.name} has more than {MOST_ELEMENTS} elements"
        if (self.window is None) == (self.template == "depthwise_cuda"):
            return "a depthwise convolution has a window, and nothing else has"
        if (self.rows is None) == (self.template == "rows_cuda"):
            return "rows_cuda has an operator of rows, and nothing else has"
        if self.rows is not None and self.rows.plain() != self.expression:
            return "the program is not that of its operator of rows"
        if self.template == "elementwise_cuda" and len(nests(self.expression)) != 1:
            return "only programs of one nest of loops have element-wise knobs"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal one."""
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
    """The workload of a node's program; None where it cannot be measured, or its template (None) has no knobs."""
    if template is None:
        return None
    workload = CudaWorkload(template=template, window=window, constants=tuple(constants), expression=program)
    return workload if workload.obstacle() is None else None


def workload_of_rows(operator: RowOperator) -> CudaWorkload | None:
    """The workload of an operator of rows; None where it cannot be measured."""
    workload = CudaWorkload(template="rows_cuda", rows=operator, expression=operator.plain())
    return workload if workload.obstacle() is None else None


def workload_from_dict(values: Mapping[str, Any]) -> CudaWorkload:
    """The workload of a JSON object. WorkloadError, which names the field, where it is none that can be built."""
    template = values.get("template")
    if template not in get_args(CudaTemplate):
        raise WorkloadError(f"there is no template {template!r} with knobs on GPUs")
    rows = values.get("rows")
    operator = None if rows is None else row_operator_from_dict(rows)
    # Nested ones are read by those that know them.
    workload: CudaWorkload = read_fields(
        CudaWorkload, f"{template}", {**values, "rows": None} if "rows" in values else values
    )
    workload = replace(workload, rows=operator)
    if (reason := workload.obstacle()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    return workload
