"""Common parts of the templates that use the MAC array: search space, tiles of windows, fills of buffers, loops of a
schedule.

Each template itself defines how it uses the array: the operations of a layer, the order of its weights, the loops
around the intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...schedule import Schedule
from ...te.ops.common import CHAIN
from ..columns import Columns
from ..space import Axis, CostEstimates, Space
from .buffer_fill import ImageBuffer, image_fill, resident
from .estimate import FITTED, BufferFill
from .template import Expression
from .tile_space import Knobs, TileLoops, cut_tiles, tile_space
from .tiles import CHUNK, Tiles, divide
from .workload import LayerShape, Workload

COPIES: Mapping[str, str] = MappingProxyType(
    {"data_copies": "inp", "weights_copies": "wgt", "sums_copies": "acc"}
)
"""Knob axes that set a buffer's number of copies (double buffering), each with the scratchpad that holds the buffer."""


def array_space(
    config: Config,
    workload: Workload,
    shape: LayerShape,
    cost: Callable[..., CostEstimates],
    *,
    levels: tuple[int, int],
    products: float,
    loaded: float,
    chunks: Sequence[Axis] = (),
) -> Space:
    """The knob space of a layer on the array.

    `levels`: innermost loop levels at which data and weights may be filled. `cost`: the template's cost model.
    `chunks`: axes that cut the reduction. The space's lower bound in cycles is the larger of `products` (cycles of
    the array) and the cycles in which the bus moves `loaded` beats of loads, and the stores.
    """
    return tile_space(
        config,
        workload.template,
        shape,
        chunks=chunks,
        levels=dict(zip(("data", "weights"), levels, strict=True)),
        copies=("data", "weights", "sums"),
        cost=partial(cost, config, workload, fitted=FITTED),
        floor=max(products, shape.bus_cycles(config, loaded)),
    )


def window_tiles(shape: LayerShape, values: Columns, chunks: np.ndarray | int = 1) -> Tiles:
    """The tiles of points (settings of the knobs) that may cut the kernel window into parts of "window_rows" x
    "window_columns". `chunks`: number of chunks into which the reduction over channels is cut.
    """
    cuts = divide(shape.kernel[0], values["window_rows"]) * divide(shape.kernel[1], values["window_columns"])
    return Tiles.of(shape, values, chunks * cuts)


def window_fill(
    config: Config,
    workload: Workload,
    shape: LayerShape,
    values: Columns,
    tiles: Tiles,
    *,
    blocks: np.ndarray,
    reads_all_blocks: bool,
) -> BufferFill:
    """The fills of the input scratchpad with padded images. A fill has the inputs of all taps of the window or, if each
    chunk of the reduction has its own fill, only the inputs of the taps in the chunk.

    `blocks`: input blocks of a fill. `reads_all_blocks`: whether each tile of output blocks reads all input blocks.
    Size and traffic are 0 if the inputs are in the chain memory (on-chip memory for tensors between layers).
    """
    if workload.resident:
        return resident(tiles)
    by_chunk = values["data_level"] == CHUNK
    image = ImageBuffer(
        level=values["data_level"],
        copies=values["data_copies"],
        blocks=blocks,
        window=(
            np.where(by_chunk, values["window_rows"], shape.kernel[0]),
            np.where(by_chunk, values["window_columns"], shape.kernel[1]),
        ),
        element=config.inp_bytes,
        step=config.inp_step_vectors,
        reads_all_blocks=reads_all_blocks,
    )
    return image_fill(config, shape, tiles, image)


def weight_beats(config: Config, tiles: int) -> float:
    """Bus beats to load `tiles` whole weight tiles."""
    return tiles * config.whole_tile_bytes / config.memory.bus_bytes


def whole_weights_fill(config: Config, values: Columns, tiles: Tiles, block: int) -> BufferFill:
    """Fills of the weight scratchpad, each with all weights of some output blocks; `block`: weight tiles per block."""
    outside = tiles.outside(values["weights_level"])
    fills = tiles.repetitions("nyxo", outside)
    beats = weight_beats(config, tiles.extents["o"] * block) * tiles.repetitions("nyx", outside)
    return BufferFill(
        size=tiles.held("o", outside) * block,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["weights_copies"], fills),
        exposed=beats / fills,
        loads=fills,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The schedule of a layer on the array, under construction: its loops over tiles, buffers and intrinsics.

    `chunk`: names of the loops over the chunks of a tile's reduction, outermost first.
    """

    schedule: Schedule
    knobs: Knobs
    tiles: TileLoops
    chunk: tuple[str, ...] = ()

    @staticmethod
    def of(expression: Expression, knobs: Knobs, lanes: tuple[str, ...]) -> Frame:
        """The expression cut into tiles of outputs, with sums in the accumulators. `lanes`: the loops inside a tile."""
        s = Schedule(expression.program)
        tiles = cut_tiles(s, knobs, lanes)
        s.compute_at("conv", tiles.innermost)
        s.set_scope("acc", "acc")
        return Frame(schedule=s, knobs=knobs, tiles=tiles)

    def pad(self, workload: Workload) -> None:
        """Schedules the copy of the padded images into the input scratchpad, unless they are already in the chain
        memory (on-chip memory for tensors between layers).
        """
        if not workload.resident:
            chunk = self.chunk[-1] if self.chunk else None
            self.schedule.compute_at("pad", self.tiles.at(self.knobs.data_level, chunk))
            self.schedule.set_scope("padded", "inp")

    def weights(self, parameters: str, chunk: str | None = None) -> None:
        """Schedules the loads of weights (in the loop at level `knobs.weights_level`) and of post-processing parameters
        (in the loop `parameters`). `chunk`: the loop over chunks of the reduction, which is the loop of level CHUNK.
        """
        self.schedule.cache_read("W", self.tiles.at(self.knobs.weights_level, chunk), "wgt")
        self.schedule.cache_read("P", parameters, "par")

    def finish(self, config: Config, expression: Expression, *, chained: bool = False) -> Schedule:
        """Schedules the stores of the sums by STORE.POST (with `chained` to the chain memory, on-chip memory for
        tensors between layers), and interleaves iterations of tiles and chunks whose buffers have several copies.
        """
        store = intrinsics.post(config, expression.post, chained=chained)
        self.schedule.tensorize("b", store, intrinsics.post_attributes(expression.post))
        for loop in (*self.tiles.names, *self.chunk):
            self.schedule.virtual_thread(loop)
        return self.schedule


def inputs_scope(workload: Workload) -> str:
    """Memory of the array's input vectors: the chain memory (on-chip, between layers) or the input scratchpad."""
    return CHAIN if workload.resident else "inp"
