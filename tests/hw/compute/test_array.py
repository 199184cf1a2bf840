"""The RTL's multiply array computes what numpy computes, with modes and operands that change in every cycle."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator
from campaign import representatives

from vdla.hw.compute.array import MultiplyArray, array_latency
from vdla.hw.compute.columns import sum_bits
from vdla.isa.array_modes import SWEEP_MODE, TAPS
from vdla.isa.config import Config, load_config

TINY = load_config("tiny")
SWEEPING = ("depthwise", "taps", "sweep", "zero_points")


def folding(block: int, folds: int, *extensions: str, **values: Any) -> Config:
    return dataclasses.replace(
        TINY, block_in=block, block_out=block, folds=folds, inp_buffer_bytes=4096, wgt_buffer_bytes=4096,
        acc_buffer_bytes=4096, extensions=("fold", *extensions), **values,
    )  # fmt: skip


SHAPES = [
    TINY,
    dataclasses.replace(TINY, batch=2, block_in=4, block_out=8, extensions=()),
    dataclasses.replace(TINY, batch=1, block_in=8, block_out=4, extensions=("post",)),
    dataclasses.replace(TINY, multiplier_stages=3),
    dataclasses.replace(TINY, batch=2, multiplier_stages=2, extensions=("depthwise", "zero_points")),
    dataclasses.replace(
        TINY, batch=2, block_in=8, block_out=8, extensions=("depthwise", "taps", "zero_points")
    ),
    dataclasses.replace(TINY, batch=2, block_out=8, extensions=("depthwise", "taps", "zero_points")),
    dataclasses.replace(TINY, block_in=16, inp_buffer_bytes=2048, extensions=("depthwise", "taps")),
    dataclasses.replace(TINY, batch=2, block_in=8, block_out=8, extensions=SWEEPING),
    dataclasses.replace(TINY, block_out=8, multiplier_stages=2, extensions=SWEEPING),
    dataclasses.replace(TINY, block_in=8, inp_buffer_bytes=1024, extensions=SWEEPING),
    folding(8, 2, "depthwise"),
    folding(8, 2, batch=2, multiplier_stages=3),
    folding(8, 2, *SWEEPING, batch=2),
    folding(16, 4, "depthwise", "taps", multiplier_stages=2),
]
LARGE = [
    dataclasses.replace(TINY, block_in=8, block_out=16, multiplier_stages=2, extensions=SWEEPING),
    folding(32, 8, "depthwise", "taps", multiplier_stages=2),
    dataclasses.replace(TINY, block_in=16, inp_buffer_bytes=2048, extensions=SWEEPING),
    folding(16, 4, *SWEEPING),
    *(folding(16, folds, *SWEEPING, batch=2) for folds in (2, 4)),
]
"""Machines that run only in campaigns, because they are slow: with many lanes, the interpreted simulation takes
seconds; with a batch of two, a minute.
"""


def expected(
    positions: np.ndarray, tile: np.ndarray, mode: int, row: int, part: int, config: Config
) -> np.ndarray:
    """The sums of all lanes for one operation. `mode`: 0 GEMM, 1 DEPTHWISE, 2 TAPS; only TAPS uses more than the first
    of the `positions`.

    `positions` is [position][vector][batch][block_in]; GEMM uses the vector `part` and all rows of the weight `tile`.
    `row`: the row of the weight tile for the other modes. Returns the sums of a batch row after another, flat.
    """
    if mode == 0:
        return (positions[0, part] @ tile.T).reshape(-1)
    inputs, outputs = config.position_inputs, config.position_outputs
    # All lanes of a position, and the weights of as many: [..., batch, lanes] and [rows, lanes].
    lanes = positions.transpose(0, 2, 1, 3).reshape(len(positions), config.batch, -1)
    weights = tile.reshape(-1, max(config.block_in, config.block_out))
    first, quarter = row // (inputs * outputs), row % outputs
    total = sum(lanes[t] * weights[first + t] for t in range(TAPS if mode == 2 else 1))
    return total[:, quarter * config.block_out :][:, : config.block_out].reshape(-1)


def folded(
    vector: np.ndarray, tile: np.ndarray, shape: int, part: int, config: Config
) -> dict[int, np.ndarray]:
    """The sums of a GEMM on a machine with the extension `fold`, for the input `vector` [batch][block_in] and `tile`,
    the part number `part` of a whole weight tile. The array's rows work in 2**`shape` groups. Returns one array of sums
    [batch][columns] for each group, by the number of the first lane to which the group adds its sums.
    """
    groups, found = 1 << shape, {}
    lanes, inputs = divmod(part, groups)
    size = config.block_in // groups
    mine = vector[:, inputs * size : (inputs + 1) * size]
    for group in range(groups):
        weights = tile[:, group * size : (group + 1) * size]
        found[(lanes * groups + group) * config.columns] = mine @ weights.T
    return found


def lanes_of(positions: np.ndarray, row: int, config: Config) -> np.ndarray:
    """Selects from input positions the channels that are multiplied by row `row` of a weight tile. A row is for one
    part of the channels. `positions`: [position][vector][batch][block_in]. Returns the values,
    [position][batch][block_out].
    """
    lanes = positions.transpose(0, 2, 1, 3).reshape(len(positions), config.batch, -1)
    quarter = row % config.position_outputs
    return lanes[:, :, quarter * config.block_out : (quarter + 1) * config.block_out]


def swept(held: np.ndarray, tile: np.ndarray, row: int, config: Config) -> list[int]:
    """The sums that one operation computes in the array mode `sweep`, in which the array multiplies several input
    positions at once. `held` [position][batch][block_out]: the input positions, oldest first. `tile`: the weight tile.
    Returns the sums of a batch row after another, flat.

    The rows of the tile form groups, each with separate rows of weights for every input position. The operation uses
    the group that contains row number `row`.
    """
    narrow, first = (
        min(config.block_in, config.block_out),
        row // SWEEP_MODE.group(config) * SWEEP_MODE.group(config),
    )
    group = tile.reshape(-1, narrow)[first:][: len(held) * config.position_inputs]
    weights = group.reshape(len(held), 1, config.block_out)
    return (held * weights).sum(axis=0).reshape(-1).tolist()


def packed(numbers: np.ndarray) -> int:
    return int.from_bytes(numbers.astype(np.int8).tobytes(), "little")


@pytest.mark.parametrize(
    "config",
    representatives([*SHAPES, *LARGE], 0, always=SHAPES),
    ids=lambda c: f"{c.batch}x{c.block_in}x{c.columns}, {c.multiplier_stages} stages",
)
def test_sums_of_back_to_back_operands(config: Config) -> None:
    rng = np.random.default_rng(7)
    count = 60
    several = config.has("taps")
    inputs, outputs = config.position_inputs if several else 1, config.position_outputs if several else 1
    vectors = rng.integers(-128, 128, (count, TAPS if several else 1, inputs, config.batch, config.block_in))
    tiles = rng.integers(-128, 128, (count, config.columns, config.block_in))
    vectors[:3], tiles[:2], tiles[2] = -128, -128, 127  # the largest sums of either sign
    kinds = 4 if config.has("sweep") else 3 if several else 2
    modes = rng.integers(0, kinds, count) * config.has("depthwise")
    modes[:3] = 0
    rows = rng.integers(0, config.tile_rows, count)
    groups, quarters = TAPS * inputs * outputs, rows % outputs
    rows = np.where(modes == 2, rows // groups * groups + quarters, rows // inputs * inputs)
    parts = rng.integers(0, inputs, count)
    firsts = rng.integers(0, TAPS, count) * several
    shapes = rng.integers(0, config.tile_parts.bit_length(), count)
    tile_parts = rng.integers(0, config.tile_parts, count)
    zeros = rng.integers(-128, 128, (count, 2)) * config.has("zero_points")
    if config.has("zero_points"):
        zeros[:3] = 127  # with -128 the largest differences
    array = MultiplyArray(config=config)
    got: list[list[int]] = []

    async def bench(ctx) -> None:
        for cycle in range(count + array_latency(config)):
            if cycle >= array_latency(config):
                bits, sums = sum_bits(config), ctx.get(array.sums)
                lanes = [sums >> bits * lane & (1 << bits) - 1 for lane in range(config.out_bytes)]
                got.append([lane - (lane >> bits - 1 << bits) for lane in lanes])
            if cycle < count:
                # Vector number `first` of the memory's four is the first one of the operation.
                ctx.set(array.vector, packed(np.roll(vectors[cycle], firsts[cycle], axis=0)))
                ctx.set(array.tile, packed(tiles[cycle]))
                ctx.set(array.depthwise, int(modes[cycle] > 0))
                if several:
                    ctx.set(array.taps, int(modes[cycle] >= 2))
                if config.has("sweep"):
                    ctx.set(array.sweep, int(modes[cycle] == 3))
                if several:
                    ctx.set(array.first, int(firsts[cycle]))
                if inputs > 1:
                    ctx.set(array.part, int(parts[cycle]))
                if config.has("fold"):
                    ctx.set(array.shape, int(shapes[cycle]))
                    ctx.set(array.tile_part, int(tile_parts[cycle]))
                ctx.set(array.row, int(rows[cycle]))
                if config.has("zero_points"):
                    ctx.set(array.inp_zero, int(zeros[cycle, 0]) & 0xFF)
                    ctx.set(array.wgt_zero, int(zeros[cycle, 1]) & 0xFF)
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    held = np.zeros((TAPS * SWEEP_MODE.operations(config), config.batch, config.block_out), np.int64)
    for k in range(count):
        vector, tile = vectors[k] - zeros[k, 0], tiles[k] - zeros[k, 1]
        if modes[k] == 3:
            held = np.concatenate([held[TAPS:], lanes_of(vector, int(rows[k]), config)])
            assert got[k] == swept(held, tile, int(rows[k]), config), k
            continue
        if modes[k] == 0 and config.has("fold"):
            lanes = np.array(got[k]).reshape(config.batch, -1)
            products = folded(vector[0, 0], tile, int(shapes[k]), int(tile_parts[k]), config)
            for first, sums in products.items():
                assert np.array_equal(lanes[:, first : first + config.columns], sums), (k, first)
            continue
        sums = expected(vector, tile, int(modes[k]), int(rows[k]), int(parts[k]), config)
        assert got[k] == sums.tolist(), k
