"""Templates of the accelerator: the template protocol, extended by a tensor expression and the number of copies of
buffers.

A kernel is a workload of a template, with the tensors and constants of the parameters, before knobs are chosen.
`TEMPLATES` lists all templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...graph.graph import Node
from ...graph.layout import Constant, pack_parameters, unpacked
from ...ir.stmt import Program
from ...te.blocks import Blocks, Pair, ceil_div
from ...te.ops.common import Area, Placement, Spread
from ...te.post import Post
from ..columns import Columns, Values
from ..space import CostEstimates, Space
from ..template import Template, cheapest
from .estimate import Fitted
from .workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Properties of a node that are not in its workload, because they do not change the cycles.

    `post`: post-processing (None: the workload's property `post`). `pad_value`: int8 value of pads. `area`: the part of
    the output that is computed (None: all). `apart`: distance in vectors between two positions, for pools and copies.
    `planes`: whether the operand has one vector for each plane. `spread`: strides of an area in the output (None:
    contiguous). `taken`: strides of the rows and columns that are copied from the input (None: the workload's strides).
    `tiles`, `zero_points`: arguments of `te.ops.conv2d` for products of two activations. `name`: the program's name.
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

    def placement(self, workload: Workload) -> Placement:
        """Memory and layout of the tensors of a node with this workload and these details."""
        return Placement(
            area=self.area,
            spread=self.spread,
            resident=workload.resident,
            margins=workload.margins,
            apart=self.apart,
            planes=self.planes,
            turned=workload.turned,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The arguments from which a template builds a tensor expression."""

    workload: Workload
    details: Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A tensor expression to schedule, its post-processing, and the zero points subtracted from inputs and weights."""

    program: Program
    post: Post
    zero_points: Pair = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VdlaTemplate(Template[Config, Workload, Expression]):
    """A template of the accelerator; costs are cycles.

    `cost(config, workload, values, fitted)`: the cost model, for many points at once. `express(config, workload,
    details, common)`: the tensor expression; `common`: the arguments that all functions of `te.ops` for the accelerator
    have. `copies`: maps each knob for a buffer's number of copies to the buffer's scratchpad. `dense_weights`: every
    filter has weights for every channel. `plain_constants`: in a lowered program, `Details.post` occurs only in
    `intrinsics.post` and its attributes, and `Details.pad_value` is the value of all pads.
    """

    cost: Callable[[Config, Workload, Columns, Fitted], CostEstimates]
    express: Callable[[Config, Workload, Details, dict[str, Any]], Program]
    copies: Mapping[str, str]
    dense_weights: bool = False
    plain_constants: bool = False

    def expression(self, config: Config, workload: Workload, details: Details | None = None) -> Expression:
        """A workload's tensor expression, with `details` (None: defaults). ValueError if a window does not fit."""
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
        """Number of copies of the buffer in each scratchpad at a point; `parameters`: copies of the parameter table."""
        found = {"inp": 1, "wgt": 1, "acc": 1, "par": parameters}
        return found | {scope: values[axis] for axis, scope in self.copies.items()}

    def default_for(self, config: Config, workload: Workload, virtual_threads: int) -> dict[str, int]:
        """The knob values of the candidate of least cost that has at most `virtual_threads` copies of each buffer.

        Raises EmptySpaceError if no candidate is legal.
        """
        return cheapest(self.space(config, workload), dict.fromkeys(self.copies, virtual_threads))

    def default_in_series(
        self, config: Config, workload: Workload, series: Workload, virtual_threads: int
    ) -> dict[str, int]:
        """The knob values for one kernel of a `series` of kernels, with at most `virtual_threads` copies of a buffer:
        the default of `series` if it is legal for the kernel's own `workload`, else the default of `workload`.
        """
        values = self.default_for(config, series, virtual_threads)
        if self.space(config, workload).permits(values):
            return values
        return self.default_for(config, workload, virtual_threads)


TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        "conv2d": "conv2d:CONV2D",
        "patch_conv2d": "patch_conv2d:PATCH_CONV2D",
        "patch_conv2d_pool": "rolling_pool:PATCH_CONV2D_POOL",
        "depthwise_conv2d": "depthwise:DEPTHWISE_CONV2D",
        "max_pool": "pool:MAX_POOL",
        "average_pool": "pool:AVERAGE_POOL",
        "elementwise": "pool:ELEMENTWISE",
        "rows": "rows:ROWS",
        "attention": "attention:ATTENTION",
        "normed": "normed:NORMED",
    }
)
"""The accelerator's templates as FILE:NAME, by a workload's `template`; files are imported at their first workload."""


def at(place: str) -> Any:
    """The function or template at `place`, FILE:NAME of this folder. The file is imported when it is first needed."""
    file, name = place.split(":")
    return getattr(import_module(f"{__package__}.{file}"), name)


@cache
def template_named(name: str) -> VdlaTemplate:
    """The template with this name, a key of `TEMPLATES` (else KeyError)."""
    return at(TEMPLATES[name])


def template_of(workload: Workload) -> VdlaTemplate:
    """The accelerator's template that schedules a workload."""
    return template_named(workload.template)


def space_of(config: Config, workload: Workload) -> Space:
    """A workload's knob space on one machine; costs are cycles. EmptySpaceError if a fused max-pool has no ring."""
    return template_of(workload).space(config, workload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """A kernel of a network before its knobs are chosen: a workload, and the tensors of the graph and the constants
    that are bound to the parameters of its program. The choice of knobs depends on `workload` alone.

    `source`: the tensor expression, or the arguments from which to build it. `recorded`: whether tuning records of the
    workload are used. `offsets`: by parameter, the byte of its tensor at which the parameter begins. `series`: if each
    image has an equal kernel, one workload for all images, else None; the kernels overlap in time and use the knobs of
    `series`.
    """

    workload: Workload
    source: Source | Expression
    tensors: Mapping[str, str]
    constants: Mapping[str, Constant]
    recorded: bool = True
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    series: Workload | None = None


def bound_tensors(node: Node) -> dict[str, str]:
    """Tensor names by program parameter: `X` (input), `Y` (output), and `R` (second operand of the store) if any."""
    tensors = {"X": node.inputs[0], "Y": node.output}
    if len(node.inputs) > 1:
        tensors["R"] = node.inputs[1]
    return tensors


def byte_of(
    config: Config,
    shape: tuple[int, int, int, int],
    *,
    image: int = 0,
    channel: int = 0,
    position: int = 0,
) -> int:
    """The byte of an activation with NCHW `shape` at which the vectors of one pixel begin in memory. `position`: number
    of the pixel in its plane, counted row by row. `channel`: first channel of a block of channels. `image`: first of
    the `config.batch` images that are stored together.
    """
    _, channels, height, width = shape
    lanes = Blocks.of(config).block
    block = image // config.batch * ceil_div(channels, lanes) + channel // lanes
    return (block * height * width + position) * config.batch * lanes


def parameters(config: Config, bias: np.ndarray, scale: np.ndarray) -> Constant:
    """Packed parameters of requantization: int32 `bias` per channel; float32 `scale` per channel, or one for all."""
    return Constant(form=unpacked, arrays=(pack_parameters(config, bias, scale),))


def identity_parameters(config: Config, channels: int, zero_point: int) -> Constant:
    """Parameters with which requantization leaves int8 values unchanged: bias -zero_point, scale 1."""
    return parameters(config, np.full(channels, -zero_point, dtype=np.int32), np.ones(1, dtype=np.float32))
