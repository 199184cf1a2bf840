"""What an operator on the accelerator is to the tuner: all that its timing can depend on, and nothing else.

Values (weights, zero points, limits) change no cycle, so layers of equal workload have one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any, Literal, get_args

from vdla.isa.config import Config
from vdla.util.errors import UserError

from ...ir.stmt import Program
from ...te.blocks import Blocks, Pads, Pair, Window, ceil_div
from ...te.ops import (
    average_pool,
    conv2d,
    depthwise_conv2d,
    elementwise,
    max_pool,
    patch_conv2d,
    patch_conv2d_pool,
)
from ...te.ops.common import Area
from ...te.ops.rolling_pool import Ring, ring_of
from ...te.post import Combination, Post

Template = Literal[
    "conv2d",
    "patch_conv2d",
    "patch_conv2d_pool",
    "depthwise_conv2d",
    "max_pool",
    "average_pool",
    "elementwise",
]

MOST_SIZE = 1 << 24
"""Of a batch, channels and filters."""
MOST_POSITIONS = 1 << 20
"""Of an image's rows, and of its columns: the knobs of a space list them all."""
MOST_STEP = 1 << 16
"""Of what a window is made of: kernels, strides, pads and dilations."""
MOST_ELEMENTS = 1 << 31
"""Of a tensor, as `ir.program_json` has it. Products of sums and outputs then fit in 64 bits."""


class WorkloadError(UserError):
    """A description that is no workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An operator of one shape, and the template that schedules it.

    Sizes are elements, not blocks; `pads` are (top, left, bottom, right). `filters` are the output's channels.
    `operand`: stage B of the store pipeline reads a second tensor. The pool is that of "patch_conv2d_pool", behind the
    convolution; the window of the pooling templates is `kernel`.
    """

    template: Template
    batch: int
    channels: int
    height: int
    width: int
    filters: int
    kernel: Pair = (1, 1)
    strides: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    dilations: Pair = (1, 1)
    operand: bool = False
    pool_kernel: Pair = (1, 1)
    pool_strides: Pair = (1, 1)
    pool_pads: Pads = (0, 0, 0, 0)

    @property
    def pool(self) -> Window:
        """Kernel, strides and pads of the pool behind a convolution."""
        return Window(kernel=self.pool_kernel, strides=self.pool_strides, pads=self.pool_pads)

    @property
    def window(self) -> Window:
        """Kernel, strides, pads and dilations."""
        return Window(kernel=self.kernel, strides=self.strides, pads=self.pads, dilations=self.dilations)

    @property
    def post(self) -> Post:
        """A post-processing of this kind; its constants change nothing."""
        addition = Combination(kind="add", ratio_self=1.0, ratio_operand=1.0)
        return Post(combination=addition if self.operand else None)

    def to_dict(self) -> dict[str, Any]:
        """The workload as JSON values, `template` first."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def windowed(
    template: Template,
    sizes: tuple[int, int, int, int],
    filters: int,
    window: Window,
    *,
    operand: bool = False,
) -> Workload:
    """The workload of an operator with a window on an input of `sizes` (batch, channels, height, width)."""
    batch, channels, height, width = sizes
    return Workload(
        template=template,
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        filters=filters,
        kernel=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        operand=operand,
    )


def workload_from_dict(value: Mapping[str, Any]) -> Workload:
    """The workload that `to_dict` described. WorkloadError for anything else, and where it is none by `checked`."""
    names = [item.name for item in fields(Workload)]
    if unknown := sorted(value.keys() ^ set(names)):
        raise WorkloadError(
            f"a workload of the accelerator has the fields {', '.join(names)}; see {unknown[0]!r}"
        )
    if value["template"] not in get_args(Template):
        raise WorkloadError(
            f"the accelerator has no template {value['template']!r}; it has {get_args(Template)}"
        )
    sizes = {"kernel": 2, "strides": 2, "pads": 4, "dilations": 2}
    sizes |= {"pool_kernel": 2, "pool_strides": 2, "pool_pads": 4}
    found: dict[str, Any] = {"template": value["template"], "operand": value["operand"]}
    if not isinstance(value["operand"], bool):
        raise WorkloadError(f"operand = {value['operand']!r} of a workload is neither true nor false")
    for name in names:
        if name in found:
            continue
        item, length = value[name], sizes.get(name)
        numbers = [item] if length is None else item
        least = 0 if name.endswith("pads") else 1
        if not isinstance(numbers, list | tuple) or len(numbers) != (length or 1):
            raise WorkloadError(f"{name} = {item!r} of a workload has not {length} numbers")
        if not all(type(n) is int and n >= least for n in numbers):
            raise WorkloadError(
                f"{name} = {item!r} of a workload is not made of integers of at least {least}"
            )
        found[name] = item if length is None else tuple(item)
    return checked(Workload(**found))


def checked(workload: Workload) -> Workload:
    """The workload. WorkloadError where a window does not fit, or a size or tensor is larger than any machine's."""
    for item in fields(Workload):
        value = getattr(workload, item.name)
        if item.name in ("template", "operand"):
            continue
        if isinstance(value, tuple):
            most = MOST_STEP
        else:
            most = MOST_POSITIONS if item.name in ("height", "width") else MOST_SIZE
        if max(value if isinstance(value, tuple) else (value,)) > most:
            raise WorkloadError(f"{item.name} = {value} of a workload is larger than {most}")
    try:
        rows, columns = workload.window.outputs(workload.height, workload.width)
        if workload.template == "patch_conv2d_pool":
            workload.pool.outputs(rows, columns)
    except ValueError as error:
        raise WorkloadError(f"{workload.template}: {error}") from None
    padded = workload.window.padded(workload.height, workload.width)
    tensors: dict[str, tuple[int, ...]] = {
        "input": (workload.batch, workload.channels, *padded),
        "output": (workload.batch, workload.filters, rows, columns),
    }
    if workload.template in ("conv2d", "patch_conv2d", "patch_conv2d_pool"):
        tensors["weights"] = (workload.filters, workload.channels, *workload.kernel)
    for name, shape in tensors.items():
        if prod(shape) > MOST_ELEMENTS:
            raise WorkloadError(
                f"{workload.template}: the {name} of {prod(shape)} elements is larger than {MOST_ELEMENTS}"
            )
    return workload


def ring_of_workload(config: Config, workload: Workload) -> Ring | None:
    """The ring of accumulator rows of a convolution with its pool; None where none works."""
    return ring_of(
        workload.pool,
        *workload.window.outputs(workload.height, workload.width),
        filter_blocks=ceil_div(workload.filters, config.block_out),
        most_filters=config.par_depth,
        acc_depth=config.acc_depth,
    )


def program_of(
    config: Config,
    workload: Workload,
    *,
    post: Post | None = None,
    pad_value: int = 0,
    area: Area | None = None,
    name: str | None = None,
) -> Program:
    """The tensor expression of a workload on one machine. ValueError if a window does not fit.

    What of a node no record knows may be given beside it: its own `post` (default: one of the workload's kind), the
    int8 value of positions outside of its input, the part of an average pool's output that is computed, its name
    (default: the template's).
    """
    image = {
        "blocks": Blocks.of(config),
        "batch": workload.batch,
        "channels": workload.channels,
        "height": workload.height,
        "width": workload.width,
        "post": workload.post if post is None else post,
        "name": workload.template if name is None else name,
    }
    filters, window = workload.filters, workload.window
    match workload.template:
        case "conv2d":
            return conv2d(filters=filters, window=window, pad_value=pad_value, **image)
        case "patch_conv2d":
            return patch_conv2d(filters=filters, window=window, pad_value=pad_value, **image)
        case "patch_conv2d_pool":
            ring = ring_of_workload(config, workload)
            if ring is None:
                raise ValueError(f"no ring of accumulators holds the rows of {workload}")
            return patch_conv2d_pool(
                filters=filters, window=window, pool=workload.pool, ring=ring, pad_value=pad_value, **image
            )
        case "depthwise_conv2d":
            return depthwise_conv2d(window=window, pad_value=pad_value, **image)
        case "max_pool":
            return max_pool(window=window, **image)
        case "average_pool":
            return average_pool(window=window, pad_value=pad_value, area=area, **image)
        case "elementwise":
            return elementwise(**image)
