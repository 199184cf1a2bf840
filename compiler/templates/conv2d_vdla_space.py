"""All ways to cut a convolution on the accelerator: which of them fit, what they move, what a model may learn from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from vdla.isa.config import Config

from .conv2d_vdla import ConvolutionShape
from .space import ESTIMATE, Account, Axis, Columns, Space
from .tiling import (
    CHUNK,
    OUTERMOST,
    TILE_ORDERS,
    Copies,
    Knobs,
    balanced_sizes,
    divide,
    fits,
    store_overhead,
    store_reads,
    transfer_cycles,
)

SLACK = 3.0
"""Points whose transfers or products alone take this many times the least that any program needs are hopeless."""
MOST_COPIES = 4
MOST_INSTRUCTIONS, LONGER = 2048.0, 64.0
"""Instructions of a program that is tried: that many, or that many for each time that a scratchpad must be filled."""

_LETTERS = np.array([["oyx".index(letter) for letter in text] for text in TILE_ORDERS])
"""The loops of each order, outermost first, as indices of "oyx"."""


def space(config: Config, shape: ConvolutionShape) -> Space:
    """The space of `conv2d_vdla.schedule` for one shape; costs are cycles."""
    copies = tuple(range(1, MOST_COPIES + 1))
    levels = tuple(range(CHUNK, OUTERMOST + 1))
    axes = (
        Axis(name="output_blocks", values=_up_to(min(shape.output_blocks, config.par_depth))),
        Axis(name="rows", values=_up_to(shape.out_height)),
        Axis(name="columns", values=_up_to(shape.out_width)),
        Axis(name="reduction_blocks", values=_up_to(shape.input_blocks)),
        Axis(name="window_rows", values=tuple(balanced_sizes(shape.kernel[0]).tolist())),
        Axis(name="window_columns", values=tuple(balanced_sizes(shape.kernel[1]).tolist())),
        Axis(name="order", values=tuple(range(len(TILE_ORDERS)))),
        Axis(name="data_level", values=levels),
        Axis(name="weights_level", values=levels),
        Axis(name="data_copies", values=copies),
        Axis(name="weights_copies", values=copies),
        Axis(name="sums_copies", values=copies),
    )
    return Space(
        template="conv2d",
        axes=axes,
        account=partial(account, config, shape),
        floor=_floor(config, shape),
        slack=SLACK,
    )


def knobs(values: Mapping[str, int], shape: ConvolutionShape) -> Knobs:
    """The knobs of a point's values."""
    window = (values["window_rows"], values["window_columns"])
    trips = {
        "o": divide(shape.output_blocks, np.array([values["output_blocks"]])),
        "y": divide(shape.out_height, np.array([values["rows"]])),
        "x": divide(shape.out_width, np.array([values["columns"]])),
    }
    order = _without_effect_outside(np.array([values["order"]]), trips)
    return Knobs(
        output_blocks=values["output_blocks"],
        rows=values["rows"],
        columns=values["columns"],
        reduction_blocks=values["reduction_blocks"],
        order=TILE_ORDERS[int(order[0])],
        data_level=values["data_level"],
        weights_level=values["weights_level"],
        window=None if window == shape.kernel else window,
        copies=Copies(
            data=values["data_copies"], weights=values["weights_copies"], sums=values["sums_copies"]
        ),
    )


def _up_to(size: int) -> tuple[int, ...]:
    return tuple(range(1, size + 1))


def _products(shape: ConvolutionShape) -> int:
    taps = shape.kernel[0] * shape.kernel[1]
    positions = shape.images * shape.out_height * shape.out_width
    return positions * shape.output_blocks * shape.input_blocks * taps


def _most_instructions(config: Config, shape: ConvolutionShape) -> float:
    """Instructions of the longest program worth trying: what scratchpads of this size ask for, many times over."""
    sums = shape.images * shape.output_blocks * shape.out_height * shape.out_width / config.acc_depth
    taps = shape.kernel[0] * shape.kernel[1]
    weights = shape.output_blocks * shape.input_blocks * taps / config.wgt_depth
    data = shape.images * shape.input_blocks * shape.height * shape.width / config.inp_depth
    return max(MOST_INSTRUCTIONS, LONGER * (sums + weights + data))


def _floor(config: Config, shape: ConvolutionShape) -> float:
    """Cycles below which no program gets: one product a cycle, every byte at least once."""
    seen = []
    for out, kernel, stride, dilation, extent in zip(
        (shape.out_height, shape.out_width),
        *(shape.kernel, shape.strides, shape.dilations, (shape.height, shape.width)),
        strict=True,
    ):
        # Strides may leave out rows between windows, which tiles of one row never read.
        seen.append(min(int(_seen(size, out, kernel, stride, dilation, extent)) for size in (1, out)))
    data = shape.images * shape.input_blocks * 1.0 * seen[0] * seen[1] * config.inp_bytes
    weights = shape.output_blocks * shape.input_blocks * shape.kernel[0] * shape.kernel[1] * config.wgt_bytes
    stored = shape.images * shape.output_blocks * shape.out_height * shape.out_width * config.out_bytes
    moved = data + weights + stored * (2 if shape.operand else 1)
    return max(float(_products(shape)), moved / config.memory.bus_bytes)


def _seen(
    size: np.ndarray | int,
    out: int,
    kernel: int,
    stride: int,
    dilation: int,
    extent: int,
    cuts: np.ndarray | int = 1,
) -> np.ndarray:
    """Rows (or columns) of an input that tiles of `size` outputs read at least, over tiles and `cuts` of the kernel.

    Pads count as little as they can: at the ends alone.
    """
    size = np.asarray(size)
    tiles = -(-out // size)
    span = (size - 1) * stride + 1
    short = (tiles * size - out) * stride
    beyond = np.maximum(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - extent)
    total = tiles * (cuts * span + (kernel - cuts) * dilation) - cuts * (short + beyond)
    return np.maximum(np.minimum(total, cuts * tiles * extent), np.minimum(extent, out))


def account(config: Config, shape: ConvolutionShape, values: Columns) -> Account:
    """The account of many points; what it counts is explained beside each quantity."""
    rows, columns, output = values["rows"], values["columns"], values["output_blocks"]
    reduction, window = values["reduction_blocks"], (values["window_rows"], values["window_columns"])
    kernel, (sy, sx), (dy, dx) = shape.kernel, shape.strides, shape.dilations
    cuts = divide(kernel[0], window[0]) * divide(kernel[1], window[1])
    chunks = divide(shape.input_blocks, reduction) * cuts
    trips = {
        "o": divide(shape.output_blocks, output),
        "y": divide(shape.out_height, rows),
        "x": divide(shape.out_width, columns),
    }
    order = _LETTERS[_without_effect_outside(values["order"], trips)]
    at = {letter: (order == k).argmax(axis=1) for k, letter in enumerate("oyx")}
    tiles = shape.images * trips["o"] * trips["y"] * trips["x"]
    steps = tiles * chunks

    def outside(level: np.ndarray) -> dict[str, np.ndarray]:
        """Which loops over tiles are outside a buffer of this level; images are where the first of y and x is."""
        inner = np.where(level == CHUNK, OUTERMOST, OUTERMOST - level)
        found = {letter: at[letter] <= inner for letter in "oyx"}
        found["n"] = found["y"] | found["x"] | (at["o"] != 0)
        return found

    # Inputs: the box that one filling holds, how often it is filled, what all fillings read.
    data_level = values["data_level"]
    out = outside(data_level)
    per_chunk = data_level == CHUNK
    read_window = [np.where(per_chunk, w, k) for w, k in zip(window, kernel, strict=True)]
    box_rows = (np.where(out["y"], rows, shape.out_height) - 1) * sy + (read_window[0] - 1) * dy + 1
    box_columns = (np.where(out["x"], columns, shape.out_width) - 1) * sx + (read_window[1] - 1) * dx + 1
    box_blocks = np.where(per_chunk, reduction, shape.input_blocks)
    data = np.where(out["n"], 1, shape.images) * box_blocks * box_rows * box_columns
    again = np.where(out["o"], trips["o"], 1)
    seen_rows = _seen(
        np.where(out["y"], rows, shape.out_height),
        *(shape.out_height, kernel[0], sy, dy, shape.height),
        np.where(per_chunk, divide(kernel[0], window[0]), 1),
    )
    seen_columns = _seen(
        np.where(out["x"], columns, shape.out_width),
        *(shape.out_width, kernel[1], sx, dx, shape.width),
        np.where(per_chunk, divide(kernel[1], window[1]), 1),
    )
    data_moved = 1.0 * shape.images * shape.input_blocks * again * seen_rows * seen_columns
    data_fills = (
        np.where(out["n"], shape.images, 1)
        * np.where(out["o"], trips["o"], 1)
        * np.where(out["y"], trips["y"], 1)
        * np.where(out["x"], trips["x"], 1)
        * np.where(per_chunk, chunks, 1)
    )
    # Rows over the whole width are one run in DRAM, others are read one by one.
    data_runs = np.where(np.minimum(box_columns, shape.width) == shape.width, 1, box_rows) * box_blocks

    # Weights.
    weights_level = values["weights_level"]
    out_w = outside(weights_level)
    by_chunk = weights_level == CHUNK
    taps = window[0] * window[1]
    weights = (
        np.where(out_w["o"], output, shape.output_blocks)
        * np.where(by_chunk, reduction, shape.input_blocks)
        * np.where(by_chunk, taps, kernel[0] * kernel[1])
    )
    weights_again = (
        np.where(out_w["n"], shape.images, 1)
        * np.where(out_w["y"], trips["y"], 1)
        * np.where(out_w["x"], trips["x"], 1)
    )
    weights_fills = weights_again * np.where(out_w["o"], trips["o"], 1) * np.where(by_chunk, chunks, 1)
    weights_moved = 1.0 * shape.output_blocks * shape.input_blocks * kernel[0] * kernel[1] * weights_again

    sums = output * rows * columns
    copies = {
        "data": np.minimum(values["data_copies"], data_fills),
        "weights": np.minimum(values["weights_copies"], weights_fills),
        "sums": np.minimum(values["sums_copies"], tiles),
    }
    # A transfer is two-dimensional: a block of channels, all filters of whole windows, the taps of one pair of blocks.
    instructions = data_fills * box_blocks * np.where(out["n"], 1, shape.images)
    whole = ~by_chunk | (chunks == 1) | ((cuts == 1) & (reduction <= shape.input_blocks))
    instructions += weights_fills * np.where(whole, 1, np.where(out_w["o"], output, 1) * reduction)
    instructions += 2 * steps + 2 * tiles * output
    # Two loops of a tile are counted by an instruction, the shortest one is written out in micro-ops.
    micro_ops = np.minimum(np.minimum(rows, columns), output) * reduction * taps
    limits = {
        "the input scratchpad": fits(config, "inp", data, copies["data"]),
        "the weight scratchpad": fits(config, "wgt", weights, copies["weights"]),
        "the accumulators": fits(config, "acc", sums, copies["sums"]),
        "the parameter table": output <= config.par_depth,
        "the micro-op memory": 2 * micro_ops <= config.uop_depth,
        "chunks that load something": per_chunk | by_chunk | (chunks == 1),
        "the length of a program": instructions <= _most_instructions(config, shape),
    }

    memory = config.memory
    bus = memory.bus_bytes
    stored = 1.0 * shape.images * shape.output_blocks * shape.out_height * shape.out_width
    data_beats = data_moved * max(1.0, config.inp_bytes / bus)
    weights_beats = weights_moved * config.wgt_bytes / min(bus, config.wgt_bytes)
    out_beats = stored * max(1.0, config.out_bytes / bus) * (2 if shape.operand else 1)
    traffic = data_beats + weights_beats + out_beats
    compute = float(_products(shape))
    bound = np.maximum(compute, traffic)
    product = output * rows * columns * reduction * taps
    one_fill = np.maximum(data, transfer_cycles(config, data_beats / data_fills, data_runs))
    loading = data_fills * one_fill + weights_beats
    store_start = output * store_overhead(config, shape.operand)
    quantities = {
        "compute cycles": np.full(len(rows), compute),
        "data beats": data_beats,
        "weights beats": weights_beats,
        "traffic": traffic,
        "loading": loading,
        "storing": tiles * store_start + np.maximum(tiles * store_reads(config, sums), out_beats),
        "bound": np.maximum(bound, loading),
        "instructions": instructions,
        "steps": steps,
        "tiles": tiles,
        "cycles of a step": product,
        "cycles of a tile": product * chunks,
        "data of a filling": data,
        "weights of a filling": weights,
        "beats of a data filling": data_beats / data_fills,
        "beats of a weights filling": weights_beats / weights_fills,
        "runs of a filling": data_runs,
        "data fillings": data_fills,
        "weights fillings": weights_fills,
        "compute between data fillings": compute / data_fills,
        "compute between weights fillings": compute / weights_fills,
        "sums of a tile": sums,
        "stores of a tile": output,
        "data copies in use": copies["data"],
        "weights copies in use": copies["weights"],
        "sums copies in use": copies["sums"],
        "exposed by the first data": one_fill,
        "exposed by the first weights": weights_beats / weights_fills,
        "exposed by the last store": sums * max(1.0, config.out_bytes / bus),
    }
    quantities[ESTIMATE] = _estimate(config, quantities)
    return Account(
        limits=limits,
        bound=bound,
        quantities={name: np.asarray(item, dtype=np.float64) for name, item in quantities.items()},
        effective=_effective(values, trips, chunks, copies),
    )


def _estimate(config: Config, quantities: Mapping[str, np.ndarray]) -> np.ndarray:
    """Cycles as far as the account tells: of the busiest unit, and what its copies of buffers do not let overlap.

    As in `conv2d_vdla.choose_knobs`, with what depends on the number of copies told apart by buffer.
    """
    compute, storing, steps = quantities["compute cycles"], quantities["storing"], quantities["steps"]
    loading, weights = quantities["loading"], quantities["weights beats"]
    busiest = np.maximum(np.maximum(compute, loading), np.maximum(storing, quantities["traffic"]))
    waits = np.where(quantities["data copies in use"] == 1, np.minimum(compute, loading - weights), 0.0)
    waits += np.where(quantities["weights copies in use"] == 1, np.minimum(compute, weights), 0.0)
    waits += np.where(quantities["sums copies in use"] == 1, np.minimum(compute, storing), 0.0)
    # What nothing hides: the first inputs, part of the first weights, half of the last store.
    ends = quantities["exposed by the first data"] + 0.25 * quantities["exposed by the first weights"]
    ends += config.memory.read_latency + 0.5 * storing / quantities["tiles"]
    return busiest + waits + ends + 4.0 * steps


def _effective(
    values: Columns, trips: dict[str, np.ndarray], chunks: np.ndarray, copies: dict[str, np.ndarray]
) -> Columns:
    """Values with those that change nothing set alike: loops that run once, levels between which nothing repeats."""
    order = _without_effect_outside(values["order"], trips)
    letters = _LETTERS[order]
    repeats = np.stack([trips[letter] > 1 for letter in "oyx"], axis=1)
    # From the chunk outwards: a level is as good as the number of repeating loops that are inside of it.
    inside = np.cumsum(
        np.concatenate(
            [
                np.zeros((len(order), 1), bool),
                (chunks > 1)[:, None],
                np.take_along_axis(repeats, letters, 1)[:, :0:-1],
            ],
            axis=1,
        ),
        axis=1,
    )
    levels = {
        name: np.take_along_axis(inside, values[name][:, None], axis=1)[:, 0]
        for name in ("data_level", "weights_level")
    }
    used = {f"{name}_copies": number for name, number in copies.items()}
    return {**values, "order": order, **levels, **used}


def _without_effect_outside(order: np.ndarray, trips: Mapping[str, np.ndarray]) -> np.ndarray:
    """The orders (indices of TILE_ORDERS) with loops over tiles that run once outermost, these in one order."""
    letters = _LETTERS[order]
    once = np.take_along_axis(np.stack([trips[letter] == 1 for letter in "oyx"], axis=1), letters, axis=1)
    rank = np.where(once, letters - len("oyx"), np.arange(len("oyx")))
    arranged = np.take_along_axis(letters, np.argsort(rank, axis=1, kind="stable"), axis=1)
    return (arranged[:, None, :] == _LETTERS[None]).all(axis=2).argmax(axis=1)
