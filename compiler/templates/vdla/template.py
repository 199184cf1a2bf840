"""What a template of the accelerator has beside the protocol: its tensor expression, and buffers that have copies.

A kernel is a workload of a template with what its parameters stand for, before its knobs are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...graph.constants import Constant, unpacked
from ...graph.graph import Node
from ...graph.layout import pack_parameters
from ...ir.stmt import Program
from ...te.blocks import Blocks, Pair
from ...te.ops.common import Area, Spread
from ...te.post import Post
from ..space import Account, Columns, Values
from ..template import Template, cheapest
from .estimate import Fitted
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What of a node its workload does not say, since it changes no cycle.

    `post` is the node's post-processing (None: one of the workload's kind), `pad_value` the int8 value of positions
    outside of the input, `area` the part of the output that is computed (None: all), `apart` how many vectors lie from
    one position to the next (pools), `planes` whether the operand has one vector for each plane, `spread` how an area
    lies in the output (None: side by side), `taken` the steps from one row and column of the input to the next that is
    copied (None: the workload's strides), `tiles` and `zero_points` those of products of two activations
    (`te.ops.conv2d`), `name` that of the program (None: the template's).
    """

    post: Post | None = None
    pad_value: int = 0
    area: Area | None = None
    apart: int = 1
    planes: bool = False
    spread: Spread | None = None
    taken: Pair | None = None
    tiles: int | None = None
    zero_points: Pair = (0, 0)
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a template makes a tensor expression of."""

    workload: Workload
    details: Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """What is scheduled: a tensor expression, the post-processing at its end, and what comes off inputs and weights."""

    program: Program
    post: Post
    zero_points: Pair = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VdlaTemplate(Template[Config, Workload, Expression]):
    """A template of the accelerator; its space's costs are cycles.

    `cost(config, workload, values, fitted)` is the cost model of many points. `express(config, workload, details,
    common)` is the tensor expression, `common` being the arguments that all operators of `te.ops` take. `copies` are
    the axes that say how many copies a buffer has, with the buffer's scratchpad. `dense_weights`: every filter has
    weights for every channel. `plain_constants`: a lowered program has the details' `post` in `intrinsics.post`
    and its attributes alone, and their `pad_value` as the value of all pads.
    """

    cost: Callable[[Config, Workload, Columns, Fitted], Account]
    express: Callable[[Config, Workload, Details, dict[str, Any]], Program]
    copies: Mapping[str, str]
    dense_weights: bool = False
    plain_constants: bool = False

    def expression(self, config: Config, workload: Workload, details: Details | None = None) -> Expression:
        """The tensor expression of a workload. ValueError if a window does not fit."""
        details = Details() if details is None else details
        post = workload.post if details.post is None else details.post
        common = {
            "blocks": Blocks.of(config),
            "post": post,
            "name": self.name if details.name is None else details.name,
        }
        program = self.express(config, workload, details, common)
        return Expression(program=program, post=post, zero_points=details.zero_points)

    def copies_by_scope(self, values: Values, parameters: int) -> dict[str, int]:
        """The copies of buffers in each scratchpad at a point; `parameters` are those of the parameter table."""
        found = {"inp": 1, "wgt": 1, "acc": 1, "par": parameters}
        return found | {scope: values[axis] for axis, scope in self.copies.items()}

    def default_for(self, config: Config, workload: Workload, virtual_threads: int) -> dict[str, int]:
        """The template's choice with at most so many copies of each buffer. Raises EmptySpaceError."""
        return cheapest(self.space(config, workload), dict.fromkeys(self.copies, virtual_threads))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """What a kernel computes and what its parameters stand for: tensors of the graph, and constants.

    Its knobs depend on `workload` alone; the tensor expression, or the `source` that it is made of when it is needed,
    may say more. `recorded`: records of the workload count for it. A parameter in `offsets` is a part of its tensor,
    and begins so many bytes behind the tensor's first one. `series` is the workload of all kernels that follow one
    another where these are alike: each begins while the one before it ends, and knobs are those of as many images.
    """

    workload: Workload
    source: Source | Expression
    tensors: Mapping[str, str]
    constants: Mapping[str, Constant]
    recorded: bool = True
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    series: Workload | None = None


def bound_tensors(node: Node) -> dict[str, str]:
    """Tensors by parameter: X, Y, and R where stage B has an operand."""
    tensors = {"X": node.inputs[0], "Y": node.output}
    if len(node.inputs) > 1:
        tensors["R"] = node.inputs[1]
    return tensors


def parameters(config: Config, bias: np.ndarray, scale: np.ndarray) -> Constant:
    """The parameters of stage A: int32 biases, and float32 scales or one for all. They are few, and packed at once."""
    return Constant(form=unpacked, arrays=(pack_parameters(config, bias, scale),))


def identity_parameters(config: Config, channels: int, zero_point: int) -> Constant:
    """Parameters with which stage A hands its int8 value on: bias -zero_point, scale 1."""
    return parameters(config, np.full(channels, -zero_point, dtype=np.int32), np.ones(1, dtype=np.float32))
