"""The knobs of direct convolutions on a GPU, the sizes of a layer, and the cost model that chooses the knobs, with the
formulas of `gemm_cost`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ...codegen.cuda.architectures import BLOCK_LIMITS
from ...codegen.cuda.machine import GpuTarget
from ...ir.affine import linear_form
from ...ir.expr import Const, Expr, Var
from ...ir.kernels import WARP
from ...ir.named_nodes import find_loop
from ...ir.stmt import Program, Reduce
from ...ir.visit import loads_in, path_to
from ...te.blocks import Pair
from ..columns import ESTIMATE, Columns
from ..space import CostEstimates, combined
from .gemm_cost import (
    COPY_INSTRUCTIONS,
    GATHER_INSTRUCTIONS,
    STALL_CYCLES,
    FetchedWork,
    cheapest,
    kernel_cycles,
    limits_of_blocks,
)
from .multiprocessor import BANKS, SCHEDULERS, SHARED_BYTES_CYCLE, ceil_divided, estimates
from .tile import VECTOR

OTHER_REGISTERS = 56
"""Registers of a thread besides sums and a tap's operands: addresses, and operands of further taps, which nvcc loads
early. For 4 x 2 x 2 sums of a 7 x 7 window the total is then 80, as NVRTC 13.0 reports for sm_90; kernels of smaller
windows take fewer registers.
"""
MOST_COPIES = 64
"""Largest number of copies into shared memory by a thread in one step; all are unrolled."""
THREADS_Z = (1, 2, 4, 8, 16)
THREADS_Y = (1, 2, 4, 7, 8, 16)
THREADS_X = (4, 5, 7, 8, 10, 14, 16, 28, 32)
MOST_THREADS = 256
THREADS = tuple(
    [(z, y, x) for z, y, x in product(THREADS_Z, THREADS_Y, THREADS_X) if WARP <= z * y * x <= MOST_THREADS]
)
"""Candidate numbers of threads of a block along (filters, rows, columns), for the default knobs."""
OWN = (
    *(
        (filters, rows, columns)
        for filters in (3, 4, 8)
        for rows, columns in ((1, 1), (1, 2), (1, 4), (2, 4))
    ),
    *((4, 2, 2), (8, 2, 2), (4, 1, 8), (8, 1, 8), (6, 1, 4), (16, 1, 2), (16, 1, 4)),
    *((1, 1, 1), (1, 1, 2), (1, 1, 4), (2, 1, 1), (2, 1, 2), (2, 1, 4), (2, 2, 4)),
)
"""Candidate tiles of one thread, as (filters, rows, columns), for the default knobs."""
CHANNELS = (1, 2, 3, 4, 8, 16)
STAGES = (2, 3)
LAYERS = 256
"""Largest number of layers in the cache of best knobs. The cache pays off because the knobs are used to choose a method
and again to schedule, and because many layers are equal.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The tiling of a direct convolution.

    A block has `threads_z` x `threads_y` x `threads_x` threads along filters, rows and columns. Each thread computes
    `filters` adjacent filters at `rows` x `columns` positions. Adjacent threads compute adjacent positions, so the
    columns of one thread are `threads_x` apart and its rows are `threads_y` apart.

    A step processes `channels` channels. The inputs of `stages` steps are in shared memory at once. With one stage a
    step waits for its copies; with more stages, copies for later steps run meanwhile.
    """

    threads_z: int
    threads_y: int
    threads_x: int
    filters: int
    rows: int
    columns: int
    channels: int
    stages: int = 2

    @property
    def tile(self) -> tuple[int, int, int]:
        """(filters, rows, columns) of a block's tile."""
        return self.threads_z * self.filters, self.threads_y * self.rows, self.threads_x * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The sizes of a `te.ops.direct_conv2d`; pairs are (rows, columns)."""

    batch: int
    channels: int
    filters: int
    outputs: Pair
    taps: Pair
    strides: Pair
    dilations: Pair

    @property
    def spans(self) -> Pair:
        """Rows and columns of the input that a window covers."""
        (taps_y, taps_x), (dy, dx) = self.taps, self.dilations
        return (taps_y - 1) * dy + 1, (taps_x - 1) * dx + 1


def layer_of(program: Program) -> Layer:
    """The sizes of an unscheduled `te.ops.direct_conv2d`; raises ValueError for any other program."""
    try:
        conv = path_to(program, "conv")[-1]
    except LookupError:
        conv = None
    loads = {e.buffer.name: e for e in loads_in(conv.value)} if isinstance(conv, Reduce) else {}
    if not isinstance(conv, Reduce) or not {"a", "b"} <= loads.keys() or len(loads["b"].indices) != 4:
        raise ValueError(f"{program.name} is not a direct convolution of one group (te.ops.direct_conv2d)")
    channels = loads["a"].buffer.shape[0]
    batch, filters, *outputs = conv.buffer.shape
    taps = [find_loop(program, f"conv.{v}").extent for v in ("kh", "kw")]
    taps_y, taps_x = (int(extent.value) for extent in taps if isinstance(extent, Const))
    steps = [
        [_step(index, f"conv.{v}") for v in pair]
        for index, pair in zip(loads["b"].indices[2:], (("y", "kh"), ("x", "kw")), strict=True)
    ]
    (sy, dy), (sx, dx) = steps
    return Layer(
        batch=batch,
        channels=channels,
        filters=filters,
        outputs=(outputs[0], outputs[1]),
        taps=(taps_y, taps_x),
        strides=(sy, sx),
        dilations=(dy, dx),
    )


def _step(index: Expr, loop: str) -> int:
    """The coefficient of the variable of `loop` in an index."""
    return linear_form(index).terms.get(Var(loop), 0)


def estimate_cost(target: GpuTarget, layer: Layer, c: Columns) -> CostEstimates:
    """The cost model's results for many settings of the knobs; `c`: an int64 array for each field of `Knobs`, all of
    one length.
    """
    taps = prod(layer.taps)
    threads = c["threads_z"] * c["threads_y"] * c["threads_x"]
    warps = ceil_divided(threads, WARP)
    filters, rows, columns = (
        c[f"threads_{axis}"] * c[own] for axis, own in (("z", "filters"), ("y", "rows"), ("x", "columns"))
    )
    channels = np.minimum(c["channels"], layer.channels)
    (sy, sx), spans = layer.strides, layer.spans
    high, wide = (rows - 1) * sy + spans[0], (columns - 1) * sx + spans[1]
    steps = ceil_divided(layer.channels, channels)
    stages = np.minimum(c["stages"], steps)
    positions = c["rows"] * c["columns"]
    products = positions * c["filters"]
    registers = 8 * ceil_divided(products + positions + c["filters"] + OTHER_REGISTERS, 8)
    inputs, weights = channels * high * wide, channels * taps * filters
    shared = 4 * stages * (inputs + weights)
    vectors = _vector_of(filters)
    copies, vector_copies = ceil_divided(inputs, threads), ceil_divided(weights, threads * vectors)
    others = {
        "threads along z": c["threads_z"] <= BLOCK_LIMITS["z"],
        "copies that are written out": copies + vector_copies <= MOST_COPIES,
    }
    limits, resident = limits_of_blocks(target, threads, registers, shared, others)
    oh, ow = layer.outputs
    tiles = ceil_divided(layer.filters, filters) * ceil_divided(oh, rows) * ceil_divided(ow, columns)
    blocks = layer.batch * tiles

    # A thread loads its weights of a tap as vectors, its elements of the input one by one.
    pieces = ceil_divided(c["filters"], _vector_of(c["filters"]))
    lanes = SCHEDULERS * WARP / target.float32_lanes
    depth = channels * taps
    instructions = depth * (products * lanes + pieces + positions)
    instructions = instructions + GATHER_INSTRUCTIONS * copies + COPY_INSTRUCTIONS * vector_copies
    # Threads of a warp that read the same element share one access.
    several = ceil_divided(WARP, c["threads_y"] * c["threads_x"])
    read = np.maximum(pieces, 4 * several * c["filters"] / SHARED_BYTES_CYCLE)
    read = read + positions * _conflicts(layer, c["threads_y"], c["threads_x"], wide)
    banks = depth * warps * read + 4 * (inputs + weights) / SHARED_BYTES_CYCLE
    cycles = kernel_cycles(
        target,
        FetchedWork(
            blocks=blocks,
            resident=resident,
            warps=warps,
            steps=steps,
            stages=stages,
            instructions=instructions,
            stalls=depth * STALL_CYCLES,
            banks=banks,
            moved=4 * (inputs + weights),
        ),
    )
    read_once = layer.batch * ((oh - 1) * sy + spans[0]) * ((ow - 1) * sx + spans[1])
    moved = 4.0 * layer.channels * (read_once + taps * layer.filters)
    moved += 4.0 * layer.batch * layer.filters * oh * ow
    memory = moved / target.memory_bandwidth
    computed = blocks.astype(np.float64) * filters * rows * columns * layer.channels * taps
    multiplied = computed / (target.multiprocessors * target.float32_lanes * target.clock)
    quantities = {
        "blocks": blocks,
        "blocks at once": resident,
        "warps of a block": warps,
        "steps": steps,
        "cycles to issue a step": instructions * warps / SCHEDULERS,
        "cycles of shared memory for a step": banks,
        "shared bytes": shared,
        "registers": registers,
        "products a load": products / (pieces + positions),
        "bytes a product": 4 * (inputs + weights) / (depth * filters * rows * columns),
    }
    seconds = np.maximum(cycles / target.clock, memory)
    return estimates(seconds, np.maximum(multiplied, memory), quantities, dict(c), limits)


@lru_cache(maxsize=LAYERS)
def best_knobs(target: GpuTarget, layer: Layer) -> tuple[Knobs, float]:
    """The knobs with the least estimated seconds among the settings in a fixed list, and these seconds; among equal
    estimates, the knobs with the smallest lower bound on the time.

    Raises ValueError if all knobs exceed the limits of a block.
    """
    steps = [(channels,) for channels in CHANNELS if channels <= layer.channels]
    table = combined(THREADS, OWN, steps, [(stages,) for stages in STAGES])
    columns = dict(zip(Knobs.__slots__, table, strict=True))
    found = estimate_cost(target, layer, columns)
    best = cheapest(target, found)
    if not all(kept[best] for kept in found.limits.values()):
        raise ValueError("no tile of the input and of the weights fits into a block's shared memory")
    knobs = Knobs(**{name: int(values[best]) for name, values in columns.items()})
    taken = int(found.quantities["steps"][best])
    return replace(knobs, stages=min(knobs.stages, taken)), float(found.quantities[ESTIMATE][best])


def _vector_of(size: np.ndarray) -> np.ndarray:
    """Number of elements that one access takes, when `size` adjacent elements are accessed: the greatest of 1, 2 and
    VECTOR that divides `size`.
    """
    return np.where(size % VECTOR == 0, VECTOR, np.where(size % 2 == 0, 2, 1))


def _conflicts(layer: Layer, high: np.ndarray, wide: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """Number of successive shared memory accesses (bank conflicts) that a warp's load from the input tile takes.

    `wide`, `high`: threads of a block along x and y. `pitch`: elements from a row of the tile to the next.
    """
    sizes = [int(values.max(initial=0)) + 1 for values in (high, wide, pitch)]
    keys, place = np.unique(np.ravel_multi_index((high, wide, pitch), sizes), return_inverse=True)
    high, wide, pitch = np.stack(np.unravel_index(keys, sizes))[:, :, None]
    lane = np.arange(WARP)
    address = lane // wide % high * layer.strides[0] * pitch + lane % wide * layer.strides[1]
    # Count distinct addresses: lanes whose address no earlier lane has.
    same = address[:, :, None] == address[:, None, :]
    new = ~np.any(same & np.tri(WARP, k=-1, dtype=bool), axis=2)
    most = np.zeros(len(address), np.int64)
    for bank in range(BANKS):
        most = np.maximum(most, np.sum(new & (address % BANKS == bank), axis=1))
    return most[place.reshape(-1)]
