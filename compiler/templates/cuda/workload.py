"""Workloads on GPUs: kernels' programs described completely, as data, so that another process can build them again.

A workload is what schedules are tuned for and recorded by. It is the whole program of a node, with all that is fused
with it: what its template takes, and what knobs are chosen for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal, TypeAlias, get_args

from ...ir.program_json import program_to_dict
from ...ir.stmt import Program
from ...te.blocks import Window
from ..workload_cpu import expression_obstacle, read_fields
from ..workload_vdla import MOST_ELEMENTS, WorkloadError
from .flat import nests

CudaTemplate: TypeAlias = Literal[
    "gemm_cuda",
    "gemv_cuda",
    "gemm_mma_cuda",
    "conv2d_cuda",
    "conv2d_direct_cuda",
    "winograd_cuda",
    "conv_transpose_cuda",
    "depthwise_cuda",
    "pool_cuda",
    "elementwise_cuda",
]
"""The templates that have a space of knobs, as the spaces call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWorkload:
    """Any tensor expression that a template with knobs schedules.

    Its parameters are float32, and the last one is all that it writes. `constants` are the names of those that are
    packed ahead, in the order of the parameters; `window` is a depthwise convolution's.
    """

    template: CudaTemplate
    window: Window | None = None
    constants: tuple[str, ...] = ()
    expression: Program

    def program(self) -> Program:
        """The tensor expression."""
        return self.expression

    def obstacle(self) -> str | None:
        """Why this cannot be measured; None where it can."""
        if (reason := expression_obstacle(self.expression, self.constants)) is not None:
            return reason
        if large := next((p for p in self.expression.parameters if prod(p.shape) > MOST_ELEMENTS), None):
            return f"{large.name} has more than {MOST_ELEMENTS} elements"
        if (self.window is None) == (self.template == "depthwise_cuda"):
            return "a depthwise convolution has a window, and nothing else has"
        if self.template == "elementwise_cuda" and len(nests(self.expression)) != 1:
            return "only programs of one nest of loops have element-wise knobs"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The workload as a JSON object, from which `workload_from_dict` makes an equal one."""
        return {
            "template": self.template,
            "window": None if self.window is None else json.loads(json.dumps(asdict(self.window))),
            "constants": list(self.constants),
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


def workload_from_dict(values: Mapping[str, Any]) -> CudaWorkload:
    """The workload of a JSON object. WorkloadError, which names the field, where it is none that can be built."""
    template = values.get("template")
    if template not in get_args(CudaTemplate):
        raise WorkloadError(f"there is no template {template!r} with knobs on GPUs")
    workload: CudaWorkload = read_fields(CudaWorkload, f"{template}", values)
    if (reason := workload.obstacle()) is not None:
        raise WorkloadError(f"{template}: {reason}")
    return workload
