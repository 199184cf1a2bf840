"""A kernel of the accelerator before its knobs are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from vdla.isa.config import Config

from ...graph.graph import Node
from ...graph.layout import pack_parameters
from .template import Expression
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """What a kernel computes and what its parameters stand for: tensors of the graph, and constants as they are packed.

    Its knobs depend on `workload` alone; the expression may say more. `recorded`: records of the workload count for it.
    A parameter in `offsets` is a part of its tensor, and begins so many bytes behind the tensor's first one.
    """

    workload: Workload
    expression: Expression
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    recorded: bool = True
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])


def bound_tensors(node: Node) -> dict[str, str]:
    """Tensors by parameter: X, Y, and R where stage B has an operand."""
    tensors = {"X": node.inputs[0], "Y": node.output}
    if len(node.inputs) > 1:
        tensors["R"] = node.inputs[1]
    return tensors


def identity_parameters(config: Config, channels: int, zero_point: int) -> np.ndarray:
    """Parameters with which stage A hands its int8 value on: bias -zero_point, scale 1."""
    return pack_parameters(
        config, np.full(channels, -zero_point, dtype=np.int32), np.ones(1, dtype=np.float32)
    )
