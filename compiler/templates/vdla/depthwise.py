"""Template of depthwise convolutions on the accelerator: an array operation multiplies one vector of channels, or
(extension `taps`) as many neighbouring vectors as instruction TAPS multiplies at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from vdla.isa.array_modes import TAPS
from vdla.isa.config import Config

from ...codegen.vdla import window_intrinsics
from ...codegen.vdla.intrinsics import gemm_attributes
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.blocks import Window, ceil_div
from ...te.ops.depthwise import Filters, depthwise_conv2d
from ...te.sweep import Sweep
from ...te.taps import TapGroups
from ..columns import Columns, Values, one_point
from ..space import Axis
from .array_template import (
    Frame,
    array_template,
    image_inputs,
    inputs_scope,
    whole_weights_fill,
    window_fill,
    window_tiles,
)
from .buffer_fill import innermost
from .estimate import LOAD_LATENCY, ArrayLayer, ArrayPoints, store_reads, vector_store_latency
from .template import Details, Expression
from .tile_space import window_axes
from .tiles import CHUNK, INNERMOST, Tiles, unrolled_micro_ops
from .workload import LayerShape, Workload, of_vectors, vector_loops


def has_depthwise(config: Config) -> bool:
    """Whether the machine has depthwise operations; without them, depthwise layers are computed as dense layers."""
    return config.has("depthwise")


def taps_of(config: Config, window: Window) -> TapGroups | None:
    """The groups of adjacent window columns that one operation multiplies; None if each column is one operation."""
    return Filters.of(config, window).taps


def widened(config: Config, workload: Workload) -> Workload:
    """The workload with the window as the array reads it: each group of columns is contiguous and may extend beyond the
    kernel. The added columns count as pads on the right.
    """
    taps = taps_of(config, workload.window)
    if taps is None:
        return workload
    window = taps.widened(workload.window)
    return replace(workload, kernel=window.kernel, pads=window.pads, dilations=window.dilations)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """The operations of the accelerator's multiplier array for one depthwise layer.

    `shape`: the layer, with the window that `widened` returns. `columns`: columns of the kernel before widening.
    `taps`: groups of columns that one operation multiplies; None on machines without operations on groups. `sweep`:
    operations that multiply several rows at once; None on machines without sweeps.
    """

    shape: LayerShape
    columns: int
    taps: TapGroups | None
    sweep: Sweep | None

    @staticmethod
    def of(config: Config, workload: Workload) -> _Array:
        """The layer of a workload on a machine. Raises ValueError if the window does not fit."""
        filters = Filters.of(config, workload.window)
        shape = LayerShape.of(config, of_vectors(config, widened(config, workload)))
        return _Array(shape=shape, columns=workload.kernel[1], taps=filters.taps, sweep=filters.sweep)

    def pads(self, rows: int) -> dict[str, int]:
        """Describes the input rows that a sweep (a run of operations that multiply several rows at once) visits for a
        tile of `rows` output rows. "above" and "below": numbers of pad rows above and below the image. "rows": number
        of all rows that windows read, pads included.

        Empty without sweeps, for kernels cut into several groups of rows, for tiles of less than full height, and for
        images without pads above or below.
        """
        shape = self.shape
        if self.sweep is None or self.sweep.groups > 1:
            return {}
        read = (shape.out_height - 1) * shape.strides[0] + (shape.kernel[0] - 1) * shape.dilations[0] + 1
        above, below = shape.leading[0], read - shape.leading[0] - shape.height
        if rows < shape.out_height or above < 1 or below < 1:
            return {}
        return {"above": above, "below": below, "rows": read}

    @property
    def operations(self) -> int:
        """Number of array operations that compute one vector of outputs."""
        return self.shape.kernel[0] * (self.columns if self.taps is None else self.taps.count)

    @property
    def single(self) -> bool:
        """Whether each operation multiplies one column of the window; the window may then be cut into chunks at any
        column.
        """
        return self.taps is None and self.columns == self.shape.kernel[1]

    def weight_tiles(self, config: Config) -> int:
        """Number of weight tiles for the kernels of one block of channels. Each kernel position fills a row of a tile;
        a row is as long as an input or output vector, whichever is longer.
        """
        if self.sweep is not None:
            return self.sweep.tiles(config)
        rows = self.operations * (1 if self.taps is None else TAPS)
        return ceil_div(rows, min(config.block_in, config.block_out))

    def busiest(self, config: Config, heights: np.ndarray) -> np.ndarray:
        """Lower bound on the layer's cycles if its tiles have `heights` rows, float64: the larger of the array's
        operations (one block of channels a cycle) and the store unit's reads.
        """
        vectors = np.array(self.shape.outputs)
        operations = vectors * self.operations
        if self.sweep is not None:
            height = self.shape.out_height
            held = self.sweep.columns * (heights == height) * bool(self.pads(height))
            operations = vectors // height * (self.sweep.of_tiles(height, heights) - held)
        return np.maximum(operations, store_reads(config, vectors)).astype(np.float64)

    def micro_ops(self, tiles: Tiles) -> np.ndarray:
        """Number of micro-ops in all micro-op sequences of the kernel."""
        if self.sweep is None:
            return unrolled_micro_ops(tiles, self.operations)
        whole, rest = self.sweep.operations(tiles.sizes["y"]), self.sweep.operations(tiles.ragged("y"))
        # An instruction iterates over two of columns, blocks and vectors; at most the vectors are left to
        # micro-ops.
        return (whole + rest) * tiles.vectors


def layer(config: Config, workload: Workload) -> ArrayLayer:
    """How a machine computes a depthwise convolution: its knobs, bounds on its cycles and traffic, and its work at many
    points. Raises ValueError if the window does not fit.
    """
    array = _Array.of(config, workload)
    shape = array.shape
    rows, columns = window_axes(shape.kernel)
    if array.sweep is not None:
        rows = Axis(name=rows.name, values=rows.values[-1:])
    if not array.single:
        columns = Axis(name=columns.name, values=columns.values[-1:])
    inputs, data_beats = image_inputs(config, workload, shape)
    return ArrayLayer(
        shape=shape,
        chunks=(rows, columns),
        levels=(innermost(workload), INNERMOST),
        products=float(array.busiest(config, np.array(shape.out_height))),
        inputs=inputs,
        data_beats=data_beats,
        weight_tiles=shape.output_blocks * array.weight_tiles(config),
        points=partial(_points, config, workload, array),
    )


def _beside_stores(config: Config, tiles: Tiles, loaded: np.ndarray, shape: LayerShape) -> np.ndarray:
    """Cycles of the store unit in addition to its stores: waits for parameter loads, and for other loads (`loaded`
    beats) on the bus.

    A parameter load overlaps with the accumulator reads of earlier stores. But on a busy bus it takes several times the
    memory's latency, and in simulation it costs as much as without overlap. Pending reads and writes alternate on a
    shared data channel, so each beat of outputs waits for a beat of loads.
    """
    fills = tiles.parameter_fills(config.par_depth)
    busier = np.maximum(loaded, shape.bus_cycles(config))
    turns = 0.0 if shape.kept else shape.bus_cycles(config, loaded) - busier
    waits = config.memory.read_latency + LOAD_LATENCY + vector_store_latency(config, shape)
    return fills * waits + turns


def _points(config: Config, workload: Workload, array: _Array, values: Columns) -> ArrayPoints:
    shape, weight_tiles = array.shape, array.weight_tiles(config)
    tiles = window_tiles(shape, values)
    by_chunk = values["data_level"] == CHUNK
    blocks = tiles.held("o", tiles.outside(values["data_level"]))
    rows = tiles.sizes["o"] * weight_tiles * config.whole_tile_rows
    data = window_fill(config, workload, shape, values, tiles, blocks=blocks, reads_all_blocks=False)
    weights = whole_weights_fill(config, values, tiles, weight_tiles)
    return ArrayPoints(
        tiles=tiles,
        data=data,
        weights=weights,
        compute=array.busiest(config, values["rows"]),
        # Each part of a window has its own micro-op sequence, because a micro-op addresses rows of weight
        # tiles absolutely.
        micro_ops=array.micro_ops(tiles),
        limits={
            # Weight rows are addressed by the micro-op's weight index, relative to a tile.
            "the row index of a micro-op": rows <= config.wgt_depth,
            "chunks that load something": by_chunk | (tiles.chunks == 1),
        },
        storing=_beside_stores(config, tiles, data.beats + weights.beats, shape),
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """Schedules the tensor expression of `te.ops.depthwise.depthwise_conv2d` with the knob values of a point."""
    array = _Array.of(config, workload)
    shape, together = array.shape, array.taps is not None
    frame = Frame.of(expression, values, window_tiles(shape, one_point(values)), vector_loops(shape))
    s = frame.schedule
    chunk: tuple[str, ...] = ()
    kh, columns = "conv.kh", ("conv.g", "conv.t") if together else ("conv.kw",)
    if (window := (values["window_rows"], values["window_columns"])) != shape.kernel:
        khc, kh = s.split(kh, window[0])
        chunk = (khc,)
        if array.single:
            kwc, kw = s.split(columns[0], window[1])
            chunk, columns = (khc, kwc), (kw,)
    part = ("conv.q",) if shape.vectors > 1 else ()
    # The loop over blocks is outermost, because the number of parts may depend on the block.
    s.reorder(*chunk, "conv.n", "conv.o", "conv.y", "conv.x", *part, kh, *columns, "conv.b", "conv.j")
    frame = replace(frame, chunk=chunk)
    frame.pad(workload)
    frame.weights(frame.tiles.parameters(shape.vectors * shape.output_blocks, config.par_depth))
    scope, zeros = inputs_scope(workload), expression.zero_points
    attributes = gemm_attributes(zeros)
    if together:
        sweeps = () if array.sweep is None else (("sweep", 1), *array.pads(values["rows"]).items())
        s.tensorize(columns[-1], window_intrinsics.taps(config, scope, zeros), (*sweeps, *attributes))
    else:
        multiply = window_intrinsics.depthwise(config, scope, zero_points=zeros)
        s.tensorize("conv.b", multiply, attributes)
    return frame.finish(config, expression, chained=workload.margins is not None)


def express(config: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """Builds the tensor expression of `te.ops.depthwise.depthwise_conv2d` for a workload. `common`: its arguments
    `blocks`, `post` and `name`.
    """
    return depthwise_conv2d(
        convolution=replace(workload.convolution, groups=workload.channels),
        pad_value=details.pad_value,
        filters=Filters.of(config, workload.window),
        placement=details.placement(workload),
        zero_points=details.zero_points,
        **common,
    )


DEPTHWISE_CONV2D = array_template("depthwise_conv2d", layer, schedule, express)
