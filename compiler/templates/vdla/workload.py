"""What an operator on the accelerator is to the tuner: all that its timing can depend on, and nothing else.

Values (weights, zero points, limits) change no cycle, so layers of equal workload have one record. `LayerShape` is a
workload in the blocks of one machine, as cost models need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any

from vdla.isa.config import Config

from ...te.blocks import Blocks, Pads, Pair, Window, ceil_div
from ...te.ops.common import Area, Part, filter_vectors
from ...te.ops.convolution import Convolution
from ...te.post import Combination, Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An operator of one shape, and the template that schedules it.

    Sizes are elements, not blocks; `pads` are (top, left, bottom, right). `filters` are the output's channels.
    `operand`: stage B of the store pipeline reads a second tensor. The pool is that of "patch_conv2d_pool", behind the
    convolution; the window of the pooling templates is `kernel`. `resident`: the input lies in the chain memory, pads
    included. `margins`: so does the output, with these (top, left, bottom, right) positions around it. `own_weights`:
    the images are kernels in a series, which have weights of their own each. `turned`: columns have parameters of their
    own, not filters. `last_vectors`: of the last block of channels only so many input vectors of a position are read.
    """

    template: str
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
    # Not in the text that keys of networks are made of: those of records were made before there was a chain memory.
    resident: bool = field(default=False, repr=False)
    margins: Pads | None = field(default=None, repr=False)
    last_vectors: int | None = field(default=None, repr=False)
    own_weights: bool = field(default=False, repr=False)
    turned: bool = field(default=False, repr=False)

    @property
    def pool(self) -> Window:
        """Kernel, strides and pads of the pool behind a convolution."""
        return Window(kernel=self.pool_kernel, strides=self.pool_strides, pads=self.pool_pads)

    @property
    def window(self) -> Window:
        """Kernel, strides, pads and dilations."""
        return Window(kernel=self.kernel, strides=self.strides, pads=self.pads, dilations=self.dilations)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, channels, height and width of the input."""
        return self.batch, self.channels, self.height, self.width

    @property
    def convolution(self) -> Convolution:
        """The operator as a dense convolution."""
        return Convolution(
            batch=self.batch,
            channels=self.channels,
            height=self.height,
            width=self.width,
            filters=self.filters,
            window=self.window,
        )

    @property
    def post(self) -> Post:
        """A post-processing of this kind; its constants change nothing."""
        addition = Combination(kind="add", ratio_self=1.0, ratio_operand=1.0)
        return Post(combination=addition if self.operand else None)

    def to_dict(self) -> dict[str, Any]:
        """The workload as JSON values, `template` first; CHAINED fields only where they say something."""
        return {
            name: list(v) if isinstance(v, tuple) else v
            for name, v in asdict(self).items()
            if name not in UNRECORDED and (name not in CHAINED or v not in (None, False))
        }


def windowed(
    template: str,
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


def filled_up(config: Config, filters: int) -> int:
    """Filters of a convolution, those that fill up the last block included where a block is several output vectors."""
    blocks = Blocks.of(config)
    return filters if blocks.outputs == 1 else ceil_div(filters, blocks.block) * blocks.block


def computed_filters(config: Config, workload: Workload) -> int:
    """Filters of a convolution, with those that fill up the last block where a second tensor is read that slowly.

    Of that a part of each position is a read of its own, which waits for memory; all of it is one.
    """
    blocks, memory = Blocks.of(config), config.memory
    own, whole = filter_vectors(blocks, workload.filters)
    if not workload.operand or own == whole or workload.template != "conv2d":
        return workload.filters
    products = ceil_div(workload.channels, blocks.block) * prod(workload.kernel)
    if memory.read_latency / memory.outstanding_reads < whole * products:
        return workload.filters
    return filled_up(config, workload.filters)


def of_vectors(config: Config, workload: Workload) -> Workload:
    """A convolution as the array computes it, with filters as `computed_filters` says.

    Where a position of an input block is several vectors, they are columns: a window is as many times as wide, and so
    are its strides. Dilated columns become zeros of the kernel (`dilated_columns`). Dense windows of one position end
    behind the last vector that holds channels, in the last of several blocks too.
    """
    blocks = Blocks.of(config)
    if blocks.inputs == 1:
        return replace(workload, filters=computed_filters(config, workload))
    wide, (top, left, bottom, right) = blocks.inputs, workload.pads
    columns, last = ((workload.kernel[1] - 1) * workload.dilations[1] + 1) * wide, None
    if workload.template == "conv2d":
        columns -= wide - blocks.inputs_read(workload.channels, workload.kernel)
        rest = ceil_div(workload.channels, blocks.block_in) % wide
        last = rest or None if workload.kernel == (1, 1) and workload.channels > blocks.block else None
    return replace(
        workload,
        channels=ceil_div(workload.channels, blocks.block) * blocks.block_in,
        width=workload.width * wide,
        kernel=(workload.kernel[0], columns),
        strides=(workload.strides[0], workload.strides[1] * wide),
        pads=(top, left * wide, bottom, right * wide),
        dilations=(workload.dilations[0], 1),
        last_vectors=last,
    )


def workload_of_area(workload: Workload, area: Area) -> Workload:
    """The workload that computes only an `area` of the output, from the rows and columns that it reads."""
    height, width = workload.height, workload.width
    part = Part.of(workload.window, height, width, area)
    ends = [start + size for start, size in zip(part.start, part.inputs, strict=True)]
    (top, left), (bottom, right) = (
        [max(0, -start) for start in part.start],
        [max(0, end - size) for end, size in zip(ends, (height, width), strict=True)],
    )
    return replace(
        workload,
        height=part.inputs[0] - top - bottom,
        width=part.inputs[1] - left - right,
        pads=(top, left, bottom, right),
    )


def vector_loops(shape: LayerShape) -> tuple[str, ...]:
    """The loops inside of those over positions: the vectors of one, if it has several, and an output vector's own."""
    return ("s", "b", "j") if shape.vectors > 1 else ("b", "j")


UNRECORDED = ("own_weights", "turned")
"""The fields of which no record tells: how knobs are chosen, and convolutions whose results lie turned."""
CHAINED = ("resident", "margins", "last_vectors")
"""The fields of a workload that most have nothing in: what lies in the chain memory, and what of blocks is read."""
WIDENED = ("max_pool", "average_pool", "elementwise")
"""Templates without weights: their inputs lie in the accumulators, in vectors like those of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """A layer with a window, in blocks: `images` blocks of the batch, blocks of channels in and out, positions.

    Of each output block, each position is `vectors` output vectors, of which the last block's may have no filters: of
    all blocks `filters` vectors have some, and no others are computed. `leading` are pads at the top and left.
    `operand`: the store pipeline reads a second tensor like the output. `kept`: the output goes to the chain memory.
    """

    images: int
    input_blocks: int
    output_blocks: int
    vectors: int
    filters: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel: Pair
    strides: Pair
    dilations: Pair
    leading: Pair
    operand: bool
    kept: bool

    @staticmethod
    def of(config: Config, workload: Workload) -> LayerShape:
        """The shape of a workload on one machine. ValueError if its window does not fit."""
        out_height, out_width = workload.window.outputs(workload.height, workload.width)
        multiplied = workload.template not in WIDENED
        vectors = Blocks.of(config).outputs if multiplied else 1
        return LayerShape(
            images=ceil_div(workload.batch, config.batch),
            input_blocks=ceil_div(workload.channels, config.block_in if multiplied else config.block_out),
            output_blocks=ceil_div(workload.filters, config.block_out * vectors),
            vectors=vectors,
            filters=ceil_div(workload.filters, config.block_out),
            height=workload.height,
            width=workload.width,
            out_height=out_height,
            out_width=out_width,
            kernel=workload.kernel,
            strides=workload.strides,
            dilations=workload.dilations,
            leading=workload.pads[:2],
            operand=workload.operand,
            kept=workload.margins is not None,
        )

    @property
    def extents(self) -> Mapping[str, int]:
        """What the loops over tiles run over: all output blocks, rows and columns."""
        return {"o": self.output_blocks, "y": self.out_height, "x": self.out_width}

    @property
    def taps(self) -> int:
        """Positions of the window."""
        return prod(self.kernel)

    @property
    def outputs(self) -> int:
        """Vectors of the output."""
        return self.images * self.filters * self.out_height * self.out_width

    @property
    def share(self) -> float:
        """Of the vectors of whole blocks those that have filters."""
        return self.filters / (self.output_blocks * self.vectors)

    def stored_beats(self, config: Config) -> float:
        """Beats of the bus for the outputs, and for the operand beside them."""
        vectors = self.outputs * (int(not self.kept) + int(self.operand))
        return vectors * config.out_bytes / config.memory.bus_bytes
