"""Chooses how the windows of a first convolution are cut into patches: by the layout with the fewest estimated cycles.
In the estimate, load unit and array run concurrently.

In a cycle, the load unit writes a row of a patch, or a part of the row if the row spans several vectors; the array
multiplies one vector. A patch that several outputs share is loaded once for all of them, but leaves lanes unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

import numpy as np

from vdla.isa.config import Config

from ...te.blocks import ceil_div
from ...te.ops.patch_layout import PatchLayout
from .estimate import FITTED, together
from .folded_work import patch_weights
from .workload import LayerShape, Workload

PATCH_LIMIT = 255
"""Largest value of the 8-bit fields of register PATCH: bytes of a patch row (run), step, pitch and left padding."""
BUS_BYTES = 16
"""Assumed bytes of weights loaded in a cycle. A constant instead of the machine's bus width: kernels, and hence layouts
of patches, must not depend on the bus width.
"""
PAD_LIMIT = 15
"""Largest number of rows of a patch above or below the image (4-bit fields of LOAD)."""
WORTH = 0.98
"""Shared patches are chosen if their estimated cycles are less than this share of the cycles with a patch for each
window: the estimate of shared patches is less certain.
"""
ROWS_AHEAD = 4
"""Largest number of patch rows that a ring buffer holds beyond the rows that a row of outputs reads; these additional
rows are loaded while the row of outputs is computed.
"""


@lru_cache(maxsize=256)
def tiled_layout(config: Config, workload: Workload) -> PatchLayout:
    """The patch layout for tiled outputs: each tile gathers all patches that it reads."""
    shape = LayerShape.of(config, workload)
    sharing = [k for k in range(1, shape.out_width + 1) if shape.out_width % k == 0]
    again = {
        layout: _gathered_again(config, layout)
        for layout in _layouts(config, workload, shape, shape.vectors, sharing)
    }
    cycles = {
        layout: _cycles(config, workload, shape, layout, times)
        for layout, times in again.items()
        if times is not None
    }
    return _best(cycles)


def _gathered_again(config: Config, layout: PatchLayout) -> float | None:
    """Average number of times that a patch is gathered. Neighbouring tiles both gather the `layout.reach` rows of
    patches that they share. Tiles are assumed to be square, and the input scratchpad to hold two tiles.

    None if the shared rows are at least half of a tile.
    """
    if not layout.reach:
        return 1.0
    side = int((config.inp_depth / (2 * layout.vectors)) ** 0.5)
    return side / (side - layout.reach) if side > 2 * layout.reach else None


@lru_cache(maxsize=256)
def rolling_layout(
    config: Config, workload: Workload, columns: int, filters: int
) -> tuple[PatchLayout, int | None]:
    """The patch layout, and the number of rows in the ring buffer of patches, for computing the output row by row,
    `columns` outputs and `filters` blocks of filters at a time.

    Patches that several outputs share need a ring of whole rows. Without shared patches there is no ring (None): each
    window is a patch of its own, and the patches of `columns` outputs are loaded when these outputs are computed.
    """
    shape = LayerShape.of(config, workload)
    groups = ceil_div(shape.output_blocks * shape.vectors, filters)
    sharing = [k for k in range(1, columns + 1) if columns % k == shape.out_width % k == 0]

    def rows(layout: PatchLayout) -> int:
        fitting = config.inp_depth // (layout.patch_columns(shape.out_width) * layout.vectors)
        return min(fitting, layout.reach + 1 + ROWS_AHEAD)

    best = _best(
        {
            layout: _cycles(config, workload, shape, layout, groups)
            for layout in _layouts(config, workload, shape, filters, sharing)
            if not layout.shared or rows(layout) > layout.reach + 1
        }
    )
    return best, rows(best) if best.shared else None


def _best(cycles: Mapping[PatchLayout, float]) -> PatchLayout:
    """The layout with the fewest cycles if they are less than WORTH times the cycles without shared patches; else the
    layout without shared patches.
    """
    best = min(cycles, key=lambda layout: cycles[layout])
    whole = next(layout for layout in cycles if not layout.shared)
    return best if cycles[best] < WORTH * cycles[whole] else whole


@lru_cache(maxsize=256)
def image_rows_read(workload: Workload, layout: PatchLayout, outputs: int) -> np.ndarray:
    """Number of image rows that patches read to compute `outputs` rows of outputs in tiles. Entry k > 0 of the result,
    int64 [outputs + 1], is the number for tiles of k rows, summed over all tiles. Pads do not count.
    """
    first = np.arange(layout.patch_rows(outputs)) * layout.row_stride - workload.pads[0]
    read = np.minimum(first + layout.rows, workload.height) - np.maximum(first, 0)
    before = np.concatenate([[0], np.cumsum(np.maximum(read, 0))])
    found = np.zeros(outputs + 1, dtype=np.int64)
    for size in range(1, outputs + 1):
        begins = np.arange(0, outputs, size)
        ends = np.minimum(begins + size, outputs) + layout.reach
        found[size] = (before[ends] - before[begins]).sum()
    return found


def _cycles(
    config: Config, workload: Workload, shape: LayerShape, layout: PatchLayout, again: float
) -> float:
    """Estimated cycles with array and load unit running concurrently, if each patch is gathered `again` times. The
    loads of all weights are added, because no earlier layer hides them.
    """
    busy = together(
        FITTED.sharpness,
        products_of(config, workload, shape, layout),
        again * loading_steps(workload, shape, layout),
    )
    tiles = shape.output_blocks * shape.vectors * layout.columns * layout.products
    return float(busy + tiles * config.whole_tile_bytes / BUS_BYTES)


def products_of(config: Config, workload: Workload, shape: LayerShape, layout: PatchLayout) -> float:
    """Cycles of the array: products of patch vectors and weight tiles, or of tile parts on machines that multiply a
    tile in parts.
    """
    weights = patch_weights(config, workload, layout)
    if weights is None:
        return 1.0 * shape.outputs * layout.products
    # Each patch is multiplied once for each column that shares it and each block of filters.
    patches = shape.outputs / (shape.output_blocks * layout.columns)
    return patches * int(weights.used.sum())


def loading_steps(workload: Workload, shape: LayerShape, layout: PatchLayout) -> float:
    """Cycles of the load unit to write the patches of all images once."""
    rows, columns = layout.patch_rows(shape.out_height), ceil_div(shape.out_width, layout.columns)
    return 1.0 * workload.batch * rows * columns * layout.steps


def _layouts(
    config: Config, workload: Workload, shape: LayerShape, filters: int, sharing: Iterable[int]
) -> Iterator[PatchLayout]:
    """Yields the layout without shared patches, then all other layouts whose sizes fit the fields of instructions, and
    whose weights and micro-ops fit their memories.

    `filters`: number of blocks of filters. `sharing`: numbers of output columns that may share a patch, ascending from
    1.
    """
    window, channels = workload.window, workload.channels
    (kernel_rows, wide), (down, right), top = window.kernel, window.strides, window.pads[0]
    for columns, apart in product(sharing, range(1, ceil_div(kernel_rows, down) + 1)):
        if columns > 1 and (wide + (columns - 1) * right) * channels > PATCH_LIMIT:
            return
        for count in range(1 if apart == 1 else 2, ceil_div(kernel_rows, apart * down) + 1):
            layout = PatchLayout.of(
                window, channels, config.block_in, apart=apart, count=count, columns=columns
            )
            behind = (layout.patch_rows(shape.out_height) - 1) * down - top + layout.rows
            if not layout.shared or (
                columns * right * channels <= PATCH_LIMIT
                and layout.vectors <= PATCH_LIMIT
                and min(layout.rows, behind - workload.height) <= PAD_LIMIT
                and columns * layout.products * filters <= config.whole_tiles
                and layout.products * config.tile_parts <= config.uop_depth
            ):
                yield layout
