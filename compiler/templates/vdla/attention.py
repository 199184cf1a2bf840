"""Attention on the accelerator: tiles of queries, scores and their softmax on the chip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from vdla.isa.config import Config
from vdla.isa.rows import MOST_ELEMENTS
from vdla.isa.timing import post_latency

from ...te.blocks import Pair, ceil_div
from ...te.ops.rows import Shares
from ...te.post import PLAIN, Post
from ..columns import ESTIMATE, Columns
from ..space import Axis, CostEstimates
from .attention_program import Arithmetic, AttentionShape, Stack, attention_program, tiles_apart
from .estimate import Fitted, together
from .tile_space import up_to
from .tile_template import Build, tile_template
from .workload import Workload

STORE_GAP = 6
"""Cycles from the end of a store to the first read of a later store that waits for this end; they include the register
settings between the two stores.
"""
ENTRIES = 3
"""Entries of the parameter table: one each for scores, shares (the softmax's results) and context."""


def _axes(config: Config, workload: Workload) -> tuple[Axis, ...]:
    """The knob of attention: the number of queries in a tile."""
    return (Axis(name="rows", values=up_to(workload.height)),)


def _blocks(config: Config, workload: Workload) -> tuple[int, int, int]:
    """(number of channel blocks of a query, number of blocks of keys, number of channel blocks of a value)."""
    depth, keys, width = (
        ceil_div(size, config.block_out) for size in (workload.channels, workload.width, workload.filters)
    )
    return depth, keys, width


def _limits(config: Config, workload: Workload, tile: np.ndarray) -> dict[str, np.ndarray]:
    depth, keys, width = _blocks(config, workload)
    one = np.ones_like(tile)
    tiles = 2 * keys * (depth + width)
    return {
        "the accumulators": 2 * (keys + width) * tile <= config.acc_depth,
        "the chain memory": 2 * keys * tile <= config.chain_depth,
        "the input scratchpad": 2 * depth * tile <= config.inp_depth,
        # One more weight tile: the unit matrix.
        "the weight scratchpad": one * (tiles + 1) <= config.whole_tiles,
        "the entries of rows": tile <= config.row_depth,
        "the parameter table": one * ENTRIES <= config.par_depth,
        "the elements of a row": one * keys * config.block_out <= MOST_ELEMENTS,
        "the micro-op memory": one * config.tile_parts * (tiles // 2 + keys) <= config.uop_depth,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationCycles:
    """Cycles of array and store unit in one iteration of the pipelined loop of `attention_program`, by activity.

    Activities of the array: `scored`, to compute the scores of tile t; `summed`, to compute the context of tile t - 1;
    `widened`, to load the int8 scores of tile t back into accumulators. Activities of the store unit: `shared`, to
    compute the softmax of tile t - 1; `kept`, to write the scores of tile t to the on-chip chain memory; `stored`, to
    store the context of tile t - 2.
    """

    scored: np.ndarray
    shared: np.ndarray
    summed: np.ndarray
    kept: np.ndarray
    widened: np.ndarray
    stored: np.ndarray

    @staticmethod
    def of(config: Config, workload: Workload, tile: np.ndarray) -> IterationCycles:
        """The cycles of an iteration of the pipelined loop for tiles of `tile` queries."""
        depth, keys, width = _blocks(config, workload)
        alone, passes = post_latency(config) + STORE_GAP, config.post_passes
        # Empty parts of weight tiles are not left out here. The estimate for three separate kernels is too
        # low: without empty parts in this one, no attention would be fused, although one kernel takes fewer
        # cycles also on machines that fold.
        scored = tile * keys * depth
        # If both tiles' sums are in one bank, the store unit can read only in cycles in which the array
        # overwrites.
        apart = tiles_apart(config, keys, width, tile)
        waits = [np.where(apart, 0, tile * blocks) for blocks in (keys * (depth - 1), width * (keys - 1))]
        beats = config.out_bytes / config.memory.bus_bytes
        return IterationCycles(
            scored=scored,
            shared=3 * (tile * keys * passes + alone) + waits[0],
            summed=tile * keys * width,
            kept=tile * keys * passes + alone,
            widened=tile * keys,
            stored=tile * width * max(float(passes), beats) + alone + config.memory.write_latency + waits[1],
        )

    @property
    def cycles(self) -> np.ndarray:
        """Estimated cycles of one iteration of the pipelined loop, when all stages of the pipeline are busy."""
        widened = np.maximum(self.summed, self.kept) + self.widened
        return np.maximum(self.scored, self.shared) + np.maximum(widened, self.kept + self.stored)


def cost(config: Config, workload: Workload, values: Columns, fitted: Fitted) -> CostEstimates:
    """The cost model of attention: cycles of all iterations of the pipelined loop, of the first loads, and of
    the last tile in the store unit.
    """
    depth, keys, width = _blocks(config, workload)
    tile = values["rows"]
    count = workload.batch * -(-workload.height // tile)
    iteration = IterationCycles.of(config, workload, tile)
    beats = config.inp_bytes / config.memory.bus_bytes
    bus = beats * (depth + width) * (count * tile + workload.batch * keys * config.block_out)
    first = beats * depth * (tile + keys * config.block_out) + config.memory.read_latency
    cycles = (
        together(fitted.sharpness, count * iteration.cycles, bus)
        + first
        + iteration.kept
        + iteration.shared
        + iteration.stored
    )
    return CostEstimates(
        limits=_limits(config, workload, tile),
        bound=np.maximum(count * tile * keys * (depth + width), bus) * np.ones(np.shape(tile)),
        quantities={ESTIMATE: cycles},
        effective=values,
    )


def _build(config: Config, workload: Workload, post: Post, name: str) -> Build:
    """The function that writes the program of attention for given tile sizes; the program has the name `name`. For
    workloads that are measured without a model. Each tensor holds its matrices one after the other, every matrix in
    whole blocks of channels.
    """
    depth, keys, width = _blocks(config, workload)
    lanes, count = config.block_out, workload.batch

    def stack(blocks: int, positions: int) -> Stack:
        return Stack(size=(count * blocks, positions), first=(0, 0), steps=((blocks, 0),))

    shape = AttentionShape(
        loops=(count,),
        rows=workload.height,
        depth=workload.channels,
        keys=workload.width,
        width=workload.filters,
        queries_in=stack(depth, workload.height),
        keys_in=stack(depth, keys * lanes),
        values_in=stack(keys, width * lanes),
        context_in=stack(width, workload.height),
    )
    shares = Shares(look_up=True, length=workload.width, own=False)
    none: Pair = (0, 0)
    arithmetic = Arithmetic(
        scores=PLAIN, shares=shares, shared=PLAIN, context=PLAIN, zero_points=(none, none)
    )
    return partial(attention_program, config, shape, arithmetic, name)


# In an attention workload height counts queries, width keys, channels a query's channels, filters a value's channels.
ATTENTION = tile_template("attention", _axes, cost, _build, balanced=("rows",))
