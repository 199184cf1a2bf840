"""Template of a product fused with the normalization of its result, on the accelerator: tile by tile of positions."""

from __future__ import annotations

from functools import partial

import numpy as np

from vdla.isa.config import Config
from vdla.isa.rows import MOST_ELEMENTS
from vdla.isa.timing import bus_cycles, post_latency

from ...te.blocks import ceil_div
from ...te.ops.rows import Shares
from ...te.post import PLAIN, Post
from ..columns import ESTIMATE, Columns
from ..space import Axis, CostEstimates
from .estimate import LOAD_LATENCY, Fitted, together
from .folded_work import parts_of_tiles
from .normed_program import (
    NormedShape,
    chunks_in_front,
    loads_ahead,
    normed_program,
    parameter_groups,
    tiles_step,
)
from .tile_space import up_to
from .tile_template import Build, tile_template
from .workload import Workload

EXPOSED = 0.75
"""Share of the cycles to load the first weights that is exposed, i.e. not hidden by other work."""
NORMALIZATION = "normalization of a tile"
"""Name of a cost quantity: cycles of the store unit for one tile's normalization."""


def _axes(config: Config, workload: Workload) -> tuple[Axis, ...]:
    """The knobs: positions of a tile, channel blocks of a reduction chunk, copies of the chunk's buffer."""
    inputs = ceil_div(workload.channels, config.block_in)
    return (
        Axis(name="rows", values=up_to(workload.height * workload.width)),
        Axis(name="chunk", values=tuple([size for size in up_to(inputs) if inputs % size == 0])),
        Axis(name="copies", values=(2, 3)),
    )


def _blocks(config: Config, workload: Workload) -> tuple[int, int]:
    """Number of blocks of channels, and number of blocks of filters."""
    return ceil_div(workload.channels, config.block_in), ceil_div(workload.filters, config.block_out)


def _limits(config: Config, workload: Workload, values: Columns) -> dict[str, np.ndarray]:
    inputs, outputs = _blocks(config, workload)
    rows, chunk, copies = (values[name] for name in ("rows", "chunk", "copies"))
    one = np.ones_like(rows)
    return {
        "the accumulators": 2 * (tiles_step(config, outputs, rows) + outputs) * rows <= config.acc_depth,
        "the input scratchpad": (copies * chunk + 2 * outputs) * rows <= config.inp_depth,
        # One more weight tile: the unit matrix.
        "the weight scratchpad": one * (inputs * outputs + 1) <= config.whole_tiles,
        "the entries of rows": rows <= config.row_depth,
        "the elements of a row": one * outputs * config.block_out <= MOST_ELEMENTS,
        "the micro-op memory": outputs * chunk * one * config.tile_parts <= config.uop_depth,
    }


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
    """The cost model: cycles of all iterations of the pipelined loop, plus exposed loads of the first tile and
    stores of the last.
    """
    inputs, outputs = _blocks(config, workload)
    rows, chunk = values["rows"], values["chunk"]
    bus, latency = config.memory.bus_bytes, config.memory.read_latency + LOAD_LATENCY
    count = workload.batch * -(-workload.height * workload.width // rows)
    in_beats, out_beats = config.inp_bytes / bus, config.out_bytes / bus
    alone = post_latency(config) + config.memory.write_latency
    groups = parameter_groups(config, outputs)
    parameters = outputs * config.par_bytes / bus + groups * latency
    operand = int(workload.operand)
    vectors, passes = rows * outputs, config.post_passes
    beats = vectors * out_beats
    stored = (
        np.maximum(vectors * passes, bus_cycles(config, beats * operand, beats))
        + groups * (alone + operand * latency)
        + parameters
    )
    normed = vectors * passes + np.maximum(vectors * passes, beats) + 2 * alone + parameters
    each, _ = parts_of_tiles(config, workload.channels, workload.filters)
    summed, read = vectors * inputs * each, rows * inputs * in_beats
    widened = vectors * config.tile_parts  # products with the unit matrix
    loaded = read + beats * (1 + operand) + 2 * outputs * config.par_bytes / bus
    moved = bus_cycles(config, loaded, 2 * beats)
    # The previous iteration's results are loaded after the inputs of most chunks and before the rest: the array waits
    # if it sums those first chunks, or the buffered ones, in less time.
    chunks, back = inputs // chunk, beats + latency + chunk * rows * in_beats
    buffered = values["copies"] * chunk * vectors * each
    waits = np.maximum(back - buffered, stored + back - chunks_in_front(chunks) * chunk * vectors * each)
    iteration = together(fitted.sharpness, summed + widened + np.maximum(0.0, waits), stored + normed, moved)
    weights = inputs * outputs * config.whole_tile_bytes / bus
    # The preceding layer hides a part of the weight loads; the next layer starts during the last normalization.
    beside = weights / chunks + np.maximum(0.0, weights + moved - iteration)
    first = chunk * rows * in_beats + latency + EXPOSED * np.where(loads_ahead(config, rows), weights, beside)
    last = stored + beats + latency + vectors
    cycles = count * iteration + first + last + fitted.step * count * (chunks + 2)
    return CostEstimates(
        limits=_limits(config, workload, values),
        bound=np.maximum(count * summed, count * moved) * 1.0,
        quantities={ESTIMATE: cycles, NORMALIZATION: normed},
        effective=values,
    )


def _build(config: Config, workload: Workload, post: Post, name: str) -> Build:
    """The function that writes the program of a workload for given tile sizes; the program has the name `name`. For
    workloads that are measured without a model.
    """
    positions = workload.height * workload.width
    shape = NormedShape(
        images=workload.batch,
        positions=positions,
        plane=positions,
        channels=workload.channels,
        filters=workload.filters,
    )
    shares = Shares(look_up=False, length=workload.filters, own=True)
    return partial(normed_program, config, shape, post, shares, PLAIN, name)


NORMED = tile_template("normed", _axes, cost, _build, balanced=("rows",))
