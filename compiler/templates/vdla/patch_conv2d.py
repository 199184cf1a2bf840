"""Template of a network's first convolution on the accelerator: the load unit gathers patches of the image, and the
whole reduction is one chunk.

The cut of windows into patches is no knob (`patch_layouts` chooses it): weights are packed before knobs are known.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.ops.patch_conv2d import patch_conv2d
from ...te.ops.patch_layout import PatchLayout
from ..columns import Columns, Values, one_point
from .array_template import Frame, array_template, whole_weights_fill
from .buffer_fill import seen
from .estimate import ArrayLayer, ArrayPoints, BufferFill, store_reads
from .patch_layouts import image_rows_read, products_of, tiled_layout
from .template import Details, Expression
from .tiles import INNERMOST, Tiles, unrolled_micro_ops
from .workload import LayerShape, Workload, vector_loops


def _shape(config: Config, workload: Workload, layout: PatchLayout) -> LayerShape:
    """The layer's sizes with each patch counted as one position: the output columns that share a patch become vectors
    of that position.
    """
    shape, columns = LayerShape.of(config, workload), layout.columns
    return replace(
        shape,
        out_width=layout.patch_columns(shape.out_width),
        vectors=shape.vectors * columns,
        filters=shape.filters * columns,
    )


def layer(config: Config, workload: Workload) -> ArrayLayer:
    """How a machine computes a convolution on patches: its knobs, bounds on its cycles and traffic, and its work at
    many points. Raises ValueError if the window does not fit.
    """
    layout = tiled_layout(config, workload)
    shape = _shape(config, workload, layout)
    return ArrayLayer(
        shape=shape,
        # Without chunks, the innermost level of the data is the innermost loop over tiles.
        levels=(INNERMOST, INNERMOST),
        products=_busiest(config, workload, shape, layout),
        inputs=shape.images * layout.patch_rows(shape.out_height) * shape.out_width * layout.vectors,
        # With a stride larger than the kernel, single patches read fewer bytes in all than rows of patches.
        data_beats=min(
            float(_data_beats(config, workload, np.array(width), np.array(height)))
            for width in (1, shape.out_width)
            for height in (1, shape.out_height)
        ),
        weight_tiles=shape.output_blocks * _block(shape, layout),
        overwriting=layout.products > 1,
        points=partial(_points, config, workload, shape),
    )


def _busiest(config: Config, workload: Workload, shape: LayerShape, layout: PatchLayout) -> float:
    """Lower bound in cycles: the larger of the array's products and the store unit's reads."""
    products = products_of(config, workload, shape, layout)
    return float(max(products, store_reads(config, np.array(shape.outputs))))


def _data_beats(config: Config, workload: Workload, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Bus beats for the image bytes of all tiles of `columns` patches by `rows` output rows; overlaps are reread."""
    layout, shape = tiled_layout(config, workload), LayerShape.of(config, workload)
    read = image_rows_read(workload, layout, shape.out_height)[rows] * seen(
        columns * layout.columns, shape, 1
    )
    return 1.0 * workload.batch * read * workload.channels / config.memory.bus_bytes


def _block(shape: LayerShape, layout: PatchLayout) -> int:
    """Weight tiles that a block of output channels needs: its output vectors times the patch vectors of an output."""
    return shape.vectors * layout.products


def _points(config: Config, workload: Workload, shape: LayerShape, values: Columns) -> ArrayPoints:
    layout, tiles = tiled_layout(config, workload), Tiles.of(shape, values)
    return ArrayPoints(
        tiles=tiles,
        data=_patches(config, workload, values, tiles),
        weights=whole_weights_fill(config, values, tiles, _block(shape, layout)),
        compute=_busiest(config, workload, shape, layout),
        micro_ops=unrolled_micro_ops(tiles, layout.products * config.tile_parts),
    )


def _patches(config: Config, workload: Workload, values: Columns, tiles: Tiles) -> BufferFill:
    layout = tiled_layout(config, workload)
    shape = _shape(config, workload, layout)
    outside = tiles.outside(values["data_level"])
    held, columns = tiles.held("y", outside), tiles.held("x", outside)
    rows = held + layout.reach
    fills = tiles.repetitions("nyxo", outside)
    beats = _data_beats(config, workload, columns, held) * tiles.repetitions("o", outside)
    size = tiles.held("n", outside) * rows * columns * layout.vectors
    # One load for each row of patches.
    gathered = shape.out_height + layout.reach * tiles.repetitions("y", outside)
    gathered = workload.batch * gathered * tiles.repetitions("ox", outside)
    written = min(workload.batch, config.batch) * tiles.held("n", outside) * rows * columns * layout.steps
    return BufferFill(
        size=size,
        fills=fills,
        beats=beats,
        copies=np.minimum(values["data_copies"], fills),
        exposed=np.maximum(beats / fills, written),
        loads=gathered + fills * min(workload.batch, config.batch),
    )


def schedule(config: Config, workload: Workload, expression: Expression, values: Values) -> Schedule:
    """Schedules the tensor expression of `te.ops.patch_conv2d` with the knob values of a point."""
    own, layout = LayerShape.of(config, workload), tiled_layout(config, workload)
    shape = _shape(config, workload, layout)
    sharing = layout.columns > 1
    lanes = (*(("xi",) if sharing else ()), *vector_loops(own))
    frame = Frame.of(expression, values, Tiles.of(shape, one_point(values)), lanes)
    s, tiles = frame.schedule, frame.tiles
    columns = ("conv.x", "conv.xi") if sharing else ("conv.x",)
    s.reorder("conv.n", "conv.y", *columns, "conv.o", "conv.kb", "conv.b", "conv.j", "conv.k")
    s.compute_at("patch", tiles.at(frame.values["data_level"]))
    frame.weights(tiles.parameters(own.vectors * own.output_blocks, config.par_depth))
    s.tensorize("conv.b", intrinsics.gemm(config))
    return frame.finish(config, expression)


def express(config: Config, workload: Workload, details: Details, common: dict[str, Any]) -> Program:
    """Builds the tensor expression of `te.ops.patch_conv2d` for a workload. `common`: its arguments `blocks`, `post`
    and `name`.
    """
    return patch_conv2d(
        convolution=workload.convolution,
        pad_value=details.pad_value,
        layout=tiled_layout(config, workload),
        **common,
    )


PATCH_CONV2D = array_template("patch_conv2d", layer, schedule, express, dense_weights=True)
