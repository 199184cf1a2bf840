"""Choosing tiles for the accelerator: every candidate is costed at once, in numpy.

The estimate counts what the timing contract counts (array cycles, bus beats, first load and last store of a layer) and
nothing learned; the tuner replaces the choice, not the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from vdla.isa.config import Config
from vdla.isa.layout import register
from vdla.isa.timing import post_latency

from ...target.vdla.machine import scratchpad_depths

TRAFFIC_WEIGHT = 0.01
"""Cycles that a bus beat counts even where it is hidden: of two equally fast tiles, the one that moves less."""

MOST_WINDOW = 1 << min(item.width for item in register("WINDOW").fields if item.name.endswith("_minus_1"))
"""Rows and columns of a pool's window at most: what the fields of register WINDOW hold."""


class NoTileError(Exception):
    """No tile of an operator fits the accelerator; says which limit excluded the last candidates."""


TILE_ORDERS = ("oyx", "oxy", "yox", "yxo", "xoy", "xyo")
"""Orders of the loops over tiles, outermost first: output blocks, rows, columns."""
CHUNK, INNERMOST, MIDDLE, OUTERMOST = 0, 1, 2, 3
"""Where a buffer is filled: with every chunk of the reduction, or with every iteration of a loop over tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """How many copies of each kind of buffer take turns: one can be filled while another is computed with."""

    data: int
    weights: int
    sums: int

    def by_scope(self, parameters: int) -> dict[str, int]:
        """The copies of buffers in each scratchpad; `parameters` are those of the parameter table."""
        return {"inp": self.data, "wgt": self.weights, "acc": self.sums, "par": parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How a layer is cut: output blocks, rows and columns of a tile, reduction blocks of a chunk.

    `order` (one of TILE_ORDERS) is that of the loops over tiles. `data_level` and `weights_level` say where inputs and
    weights are loaded, from CHUNK, where they come anew for every chunk, to OUTERMOST, where they stay for all that is
    inside the outermost loop over tiles. `window` cuts the reduction into rows and columns of the kernel too (None:
    not), where not even one block's inputs or weights for a whole window fit. `copies` of buffers: None for as many
    as virtual threads were asked for. A template ignores knobs that its operator has no use for.
    """

    output_blocks: int
    rows: int
    columns: int
    reduction_blocks: int = 1
    order: str = TILE_ORDERS[0]
    data_level: int = CHUNK
    weights_level: int = OUTERMOST
    window: tuple[int, int] | None = None
    copies: Copies | None = None


def first_that_fits(
    choose: Callable[[int, bool], Knobs], virtual_threads: int, kernel: tuple[int, int] = (1, 1)
) -> Knobs:
    """The knobs that `choose(threads, whole)` gives for as many threads as fit, whole windows before cut ones.

    Raises the NoTileError of one thread and cut windows, the least that can be asked for.
    """
    problem: NoTileError | None = None
    for whole in (True, False) if kernel != (1, 1) else (True,):
        for threads in range(virtual_threads, 0, -1):
            try:
                return choose(threads, whole)
            except NoTileError as error:
                problem = error
    assert problem is not None
    raise problem


def window_sizes(kernel: tuple[int, int], whole: bool) -> dict[str, np.ndarray]:
    """The axes "window_rows" and "window_columns" of `candidates`: the kernel's own size, or every balanced one."""
    if whole:
        return {"window_rows": np.array(kernel[:1]), "window_columns": np.array(kernel[1:])}
    return {"window_rows": balanced_sizes(kernel[0]), "window_columns": balanced_sizes(kernel[1])}


def balanced_sizes(extent: int, most: int | None = None) -> np.ndarray:
    """The tile sizes worth trying: ceil(extent / k) for every k, at most `most`, ascending."""
    most = extent if most is None else min(extent, most)
    sizes = {ceil(extent / k) for k in range(1, extent + 1)}
    return np.array(sorted(size for size in sizes if size <= most) or [most], dtype=np.int64)


def candidates(axes: Mapping[str, Sequence[int] | np.ndarray]) -> dict[str, np.ndarray]:
    """The Cartesian product of the axes, one flat int64 array a knob."""
    grids = np.meshgrid(*(np.asarray(values, dtype=np.int64) for values in axes.values()), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(axes, grids, strict=True)}


def divide(extent: int, size: np.ndarray) -> np.ndarray:
    """How many tiles of each size cover `extent`."""
    return -(-extent // size)


def fits(config: Config, scope: str, size: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Whether `copies` buffers of `size` elements fit a scratchpad; accumulator copies take whole banks."""
    depth = scratchpad_depths(config)[scope]
    if scope == "acc":
        size = np.where(copies > 1, -(-size // config.acc_bank_depth) * config.acc_bank_depth, size)
    return size * copies <= depth


def transfer_cycles(config: Config, beats: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Cycles to read `beats` in `runs` separate runs: the bus, or the latency of as many as may be outstanding."""
    memory = config.memory
    waiting = (runs * memory.read_latency + beats) / memory.outstanding_reads
    return np.maximum(beats, waiting)


def store_overhead(config: Config, operand: bool) -> int:
    """Cycles of one STORE.POST beyond its vectors: pipeline, last burst's response, first operand's latency."""
    memory = config.memory
    return post_latency(config) + memory.write_latency + 8 + (memory.read_latency if operand else 0)


def store_reads(config: Config, vectors: np.ndarray, window: int = 1) -> np.ndarray:
    """Cycles in which STORE.POST reads `vectors` windows of that many accumulators, waits for its passes included."""
    return vectors * max(window, config.post_passes)


def par_load_cycles(config: Config, entries: np.ndarray) -> np.ndarray:
    """Cycles of one LOAD.PAR, which the store unit does not overlap with anything."""
    memory = config.memory
    return memory.read_latency + 8 + entries * (config.par_bytes // min(config.par_bytes, memory.bus_bytes))


def best(what: str, legal: Mapping[str, np.ndarray], cost: np.ndarray, traffic: np.ndarray) -> int:
    """Index of the cheapest legal candidate (ties: least DRAM traffic, then the last). Raises NoTileError."""
    allowed = np.ones(len(cost), dtype=bool)
    for reason, mask in legal.items():
        if not (allowed & mask).any():
            raise NoTileError(f"{what}: no tile is small enough for {reason}")
        allowed &= mask
    value = np.where(allowed, cost + TRAFFIC_WEIGHT * traffic, np.inf)
    return int(len(value) - 1 - np.argmin(value[::-1]))
