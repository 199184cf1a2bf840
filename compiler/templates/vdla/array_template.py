"""Common parts of the templates that use the MAC array: search space, tiles of windows, fills of buffers, loops of a
schedule.

Each template itself defines how it uses the array: the operations of a layer, the order of its weights, the loops
around the intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.common import CHAIN
from ..columns import Columns, Values
from ..space import CostEstimates, Space
from .buffer_fill import ImageBuffer, image_fill, least_data_beats, resident
from .estimate import FITTED, ArrayLayer, BufferFill, Fitted, array_cost
from .template import Details, Expression, VdlaTemplate
from .tile_space import TileLoops, canonical, cut_tiles, tile_space
from .tiles import CHUNK, Tiles, divide
from .workload import LayerShape, Workload

COPIES: Mapping[str, str] = MappingProxyType(
    {"data_copies": "inp", "weights_copies": "wgt", "sums_copies": "acc"}
)
"""Knob axes that set a buffer's number of copies (double buffering), each with the scratchpad that holds the buffer."""


def array_template(
    name: str,
    layer: Callable[[Config, Workload], ArrayLayer],
    schedule: Callable[[Config, Workload, Expression, Values], Schedule],
    express: Callable[[Config, Workload, Details, dict[str, Any]], Program],
    *,
    dense_weights: bool = False,
) -> VdlaTemplate:
    """A template that uses the MAC array. `layer` gives a workload's layer, from which search space and cost model
    follow; it raises ValueError if the window does not fit. `express` builds the tensor expression that `schedule`
    schedules. `dense_weights`: whether every filter has weights for every channel.
    """

    def space(config: Config, workload: Workload) -> Space:
        of = layer(config, workload)
        loaded = of.data_beats + weight_beats(config, of.weight_tiles)
        return tile_space(
            config,
            name,
            of.shape,
            chunks=of.chunks,
            levels=dict(zip(("data", "weights"), of.levels, strict=True)),
            copies=("data", "weights", "sums"),
            cost=partial(cost, config, workload, fitted=FITTED),
            floor=max(of.products, of.shape.bus_cycles(config, loaded)),
        )

    def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
        return array_cost(config, layer(config, workload), values, fitted)

    return VdlaTemplate(
        name=name,
        space=space,
        schedule=schedule,
        cost=cost,
        express=express,
        copies=COPIES,
        dense_weights=dense_weights,
        plain_constants=True,
    )


def image_inputs(config: Config, workload: Workload, shape: LayerShape) -> tuple[int, float]:
    """For a layer that reads whole images: number of input vectors (any program loads each at least once), and lower
    bound on their bus beats. Both are 0 if inputs are in the chain memory (on-chip memory for tensors between layers).
    """
    if workload.resident:
        return 0, 0.0
    vectors = shape.images * shape.input_blocks * shape.height * shape.width
    return vectors, least_data_beats(config, shape, config.inp_bytes)


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


def weight_beats(config: Config, tiles: Any) -> Any:
    """Bus beats to load `tiles` (number or array) whole weight tiles."""
    return tiles * config.whole_tile_bytes / config.memory.bus_bytes


def whole_weights_fill(config: Config, values: Columns, tiles: Tiles, block: int) -> BufferFill:
    """Fills of the weight scratchpad, each with all weights of some output blocks: `block` weight tiles for each."""
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

    `values`: the knob values of the schedule's point (`canonical`). `chunk`: names of the loops over the chunks of a
    tile's reduction, outermost first.
    """

    schedule: Schedule
    values: Values
    tiles: TileLoops
    chunk: tuple[str, ...] = ()

    @staticmethod
    def of(expression: Expression, values: Values, tiles: Tiles, lanes: tuple[str, ...]) -> Frame:
        """The expression cut into tiles of outputs, with sums in the accumulators. `tiles`: the tiles of the point
        `values`. `lanes`: names of the loops that become the innermost ones, inside a tile's positions.
        """
        s, values = Schedule(expression.program), canonical(values, tiles)
        loops = cut_tiles(s, values, lanes)
        s.compute_at("conv", loops.innermost)
        s.set_scope("acc", "acc")
        return Frame(schedule=s, values=values, tiles=loops)

    def pad(self, workload: Workload) -> None:
        """Schedules the copy of the padded images into the input scratchpad, unless they are already in the chain
        memory (on-chip memory for tensors between layers).
        """
        if not workload.resident:
            chunk = self.chunk[-1] if self.chunk else None
            self.schedule.compute_at("pad", self.tiles.at(self.values["data_level"], chunk))
            self.schedule.set_scope("padded", "inp")

    def weights(self, parameters: str, chunk: str | None = None) -> None:
        """Schedules the loads of weights (in the loop at level "weights_level") and of post-processing parameters (in
        loop `parameters`). `chunk`: loop of level CHUNK, over reduction chunks (None: innermost loop over tiles).
        """
        self.schedule.cache_read("W", self.tiles.at(self.values["weights_level"], chunk), "wgt")
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
