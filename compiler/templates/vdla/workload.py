"""Workloads of the accelerator: the fields of an operator that can change its cycles, and nothing else.

Values (weights, zero points, limits) do not change the cycles, so layers of equal workload share one tuning record.
`LayerShape` is a workload in the blocks of one machine, for cost models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any

from vdla.isa.config import Config
from vdla.isa.timing import bus_cycles

from ...te.blocks import Blocks, Pads, Pair, Window, ceil_div
from ...te.combination import Combination
from ...te.ops.common import Area, Part, filter_vectors
from ...te.ops.convolution import Convolution
from ...te.post import Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An operator of one shape, and the template that schedules it.

    Sizes are in elements, not blocks; `pads` are (top, left, bottom, right). `filters`: channels of the output.
    `operand`: the store combines the output with a second tensor. `pool_*`: the max-pool after a convolution, in
    "patch_conv2d_pool" only; pooling templates use `kernel`. `resident`: the input is in the chain memory (on-chip
    memory that keeps a layer's output for the next layer), with its pads. `margins`: the output is in the chain memory,
    with pads (top, left, bottom, right) around it; None: in DRAM. `own_weights`: each image has its own weights and is
    computed by its own kernel; the workload covers this series of kernels. `turned`: the product is transposed:
    post-processing parameters belong to columns, not filters. `last_vectors`: how many vectors of each position are
    read in the last block of input channels (None: all).
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
    # Not in the repr, because `AcceleratorNetwork.key` hashes it and existing records are older than these fields.
    resident: bool = field(default=False, repr=False)
    margins: Pads | None = field(default=None, repr=False)
    last_vectors: int | None = field(default=None, repr=False)
    own_weights: bool = field(default=False, repr=False)
    turned: bool = field(default=False, repr=False)

    @property
    def pool(self) -> Window:
        """The max-pool after a convolution: kernel, strides and pads."""
        return Window(kernel=self.pool_kernel, strides=self.pool_strides, pads=self.pool_pads)

    @property
    def window(self) -> Window:
        """The operator's window: kernel, strides, pads and dilations."""
        return Window(kernel=self.kernel, strides=self.strides, pads=self.pads, dilations=self.dilations)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, channels, height and width of the input."""
        return self.batch, self.channels, self.height, self.width

    @property
    def convolution(self) -> Convolution:
        """The workload as a dense convolution: its sizes and window, with one group."""
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
        """Post-processing with or without `operand`; constants are arbitrary, since they do not change the cycles."""
        addition = Combination(kind="add", ratio_self=1.0, ratio_operand=1.0)
        return Post(combination=addition if self.operand else None)

    def to_dict(self) -> dict[str, Any]:
        """The workload as JSON values, `template` first; UNRECORDED fields and default CHAINED fields are omitted."""
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
    """The workload of an operator with `window` and `filters` on an input of `sizes` (NCHW), for `template`."""
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
    """The number of filters; if a block has several output vectors, the number is rounded up to whole blocks."""
    blocks = Blocks.of(config)
    return filters if blocks.outputs == 1 else ceil_div(filters, blocks.block) * blocks.block


def computed_filters(config: Config, workload: Workload) -> int:
    """Number of filters that the array computes. It is rounded up to whole blocks if the store then reads the second
    operand faster: whole blocks are contiguous; otherwise each position needs a burst, which waits for memory.
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
    """The convolution with columns counted in vectors of the array, and with `computed_filters` filters.

    If an input position has several vectors, these count as columns: width, kernel and stride are that many times as
    wide. Dilated columns become zeros of the kernel (`dilated_columns`). A dense 1x1 convolution does not read vectors
    without channels: with a single block, its window ends after the last vector that holds channels; with several
    blocks, `last_vectors` is the number of vectors read in the last block.
    """
    blocks = Blocks.of(config)
    if blocks.inputs == 1:
        return replace(workload, filters=computed_filters(config, workload))
    from ...te.ops.depthwise import in_vectors

    wide, window, last = blocks.inputs, in_vectors(blocks, workload.window), None
    rows, columns = window.kernel
    if workload.template == "conv2d":
        columns -= wide - blocks.inputs_read(workload.channels, workload.kernel)
        rest = ceil_div(workload.channels, blocks.block_in) % wide
        last = rest or None if workload.kernel == (1, 1) and workload.channels > blocks.block else None
    return replace(
        workload,
        channels=ceil_div(workload.channels, blocks.block) * blocks.block_in,
        width=workload.width * wide,
        kernel=(rows, columns),
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        last_vectors=last,
    )


def workload_of_area(workload: Workload, area: Area) -> Workload:
    """The workload of an `area` of the output, with only the input rows and columns that the area reads."""
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
    """Names of the loops inside the loops over positions: s (vectors, if several), b (batch), j (lanes)."""
    return ("s", "b", "j") if shape.vectors > 1 else ("b", "j")


UNRECORDED = ("own_weights", "turned")
"""Workload fields that tuning records leave out: only kernels of a series (equal kernels for several images, with
weights of their own) and transposed products set them.
"""
CHAINED = ("resident", "margins", "last_vectors")
"""Workload fields that most workloads leave at their default: use of the chain memory (on-chip memory that keeps a
layer's output for the next layer), and partial reads of blocks.
"""
WIDENED = ("max_pool", "average_pool", "elementwise")
"""Templates without weights. Their input elements enter the accumulators unchanged, in vectors of the output's size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """Sizes of a layer with a window, in a machine's blocks: numbers of blocks of the batch (`images`) and of input and
    output channels, and rows and columns of positions.

    A position of an output block has `vectors` output vectors; in the last block some vectors may have no filters.
    `filters`: number of vectors with filters at a position, over all blocks; only these are computed. `leading`: pads
    at the top and left. `operand`: the store pipeline reads a second tensor shaped like the output. `kept`: the output
    goes to the chain memory (on-chip memory that keeps a layer's output for the next layer).
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
        """The shape of a workload on one machine. Raises ValueError if its window does not fit."""
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
        """Extents of the loops over tiles: output blocks ("o"), rows ("y") and columns ("x")."""
        return {"o": self.output_blocks, "y": self.out_height, "x": self.out_width}

    @property
    def taps(self) -> int:
        """Number of positions of the window."""
        return prod(self.kernel)

    @property
    def outputs(self) -> int:
        """Number of output vectors that are computed."""
        return self.images * self.filters * self.out_height * self.out_width

    @property
    def share(self) -> float:
        """Share of the output blocks' vectors that contain filters; the others are padding of the last block."""
        return self.filters / (self.output_blocks * self.vectors)

    def bus_cycles(self, config: Config, loaded: Any = 0.0) -> Any:
        """Least bus cycles for `loaded` beats (number or array), the operand, and the outputs (none if `kept`)."""
        beats = self.outputs * config.out_bytes / config.memory.bus_bytes
        return bus_cycles(config, loaded + beats * self.operand, beats * (not self.kept))
