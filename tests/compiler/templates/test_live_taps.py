"""Taps of a window that read only pads: counted correctly, and never computed by CPU convolutions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.ir.interp import interpret
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.sketch.default import default_values
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import OUTERMOST, find_sketches
from vdla.compiler.templates.cpu.sketch.taps import LEAST_DEAD, taps_of


@pytest.mark.parametrize("seed", range(20))
def test_live_is_what_tiles_compute(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride, dilation, pad, size = (int(n) for n in rng.integers((1, 1, 1, 0, 1), (5, 4, 9, 14, 16)))
    span = (kernel - 1) * dilation + 1
    behind = max(int(rng.integers(0, 14)), span - size - pad)
    window = Window(
        kernel=(1, kernel), strides=(1, stride), dilations=(1, dilation), pads=(0, pad, 0, behind)
    )
    shape = Convolution(batch=1, channels=1, height=1, width=size, filters=1, window=window)
    given = find_sketches(blocked_convolution(shape, block_in=1, block_out=1), host_target())
    if given.main is None or not taps_of(given.program, given.main):
        # There are no pads, or there is one output.
        return
    (taps,) = taps_of(given.program, given.main)
    for tile, block in ((1, taps.outputs), (2, 4), (3, 5), (taps.outputs, taps.outputs)):
        at = np.arange(taps.outputs) * stride - pad
        live = [(at + k * dilation >= 0) & (at + k * dilation < size) for k in range(kernel)]
        # An output of a tile computes what any of its tile does: the span from the first to the last one.
        computed = 0
        for begin in range(0, taps.outputs, block):
            for first in range(begin, min(begin + block, taps.outputs), tile):
                last = min(first + tile, begin + block, taps.outputs)
                reached = [
                    at[last - 1] + k * dilation >= 0 and at[first] + k * dilation < size
                    for k in range(kernel)
                ]
                assert all(r or not inside[first:last].any() for r, inside in zip(reached, live, strict=True))
                computed += sum(reached) * (last - first)
        share = computed / (taps.outputs * kernel)
        assert taps.live(tile, block) == (1 if 1 - share < LEAST_DEAD else pytest.approx(share))


CASES = {
    "far apart": ((3, 3), (1, 1), (5, 6), (5, 6, 5, 6), (5, 6)),
    "beyond the input": ((3, 3), (1, 1), (9, 9), (9, 9, 9, 9), (4, 5)),
    "strided, uneven": ((2, 4), (2, 3), (3, 4), (0, 9, 5, 2), (6, 7)),
    "one column": ((3, 1), (1, 1), (4, 1), (4, 0, 4, 0), (5, 6)),
}


@pytest.mark.parametrize(
    ("name", "part"),
    representatives(
        itertools.product(CASES, (None, 1)),
        0,
        # Sums in one and in parts.
        always=[*((name, (1, None)[i % 2]) for i, name in enumerate(CASES)), ("beyond the input", 1)],
    ),
)
def test_convolutions_compute_no_tap_of_pads_alone(name: str, part: int | None) -> None:
    kernel, strides, dilations, pads, (height, width) = CASES[name]
    window = Window(kernel=kernel, strides=strides, dilations=dilations, pads=pads)
    program = blocked_convolution(
        Convolution(batch=1, channels=8, height=height, width=width, filters=12, window=window, groups=2),
        block_in=2,
        block_out=4,
        sums=FloatSums(epilogue=Epilogue(bias=True, activation="relu")),
    )
    rng = np.random.default_rng(0)
    arrays = {p.name: (rng.integers(-8, 9, p.shape) / 8).astype(np.float32) for p in program.parameters}
    expected = interpret(program, arrays)["Y"]
    # What no output needs is left out whatever the tile: not even NaN shows.
    oh, ow = window.outputs(height, width)
    dead = 0
    for axis, (size, outputs) in enumerate(((height, oh), (width, ow))):
        at = np.arange(outputs) * strides[axis] - pads[axis]
        for k in range(kernel[axis]):
            if at[-1] + k * dilations[axis] < 0 or at[0] + k * dilations[axis] >= size:
                np.moveaxis(arrays["W"], 3 + axis, 0)[k] = np.nan
                dead += 1
    assert dead >= (4 if name == "beyond the input" else 0)
    given = find_sketches(program, host_target(), constants=frozenset({"W"}), parallel=True)
    default = default_values(given)
    # The loops over groups, blocks of filters, rows, columns and filters.
    assert given.main is not None and len(given.main.axles) == 5
    small = default | dict.fromkeys([f"block.{k}" for k in range(5)], 0) | {"producer": OUTERMOST, "terms": 0}
    last = max(axis.values[-1] for axis in given.axes if axis.name == "terms")
    for values in (
        small | {"tile.1": 1, "tile.2": 2, "tile.3": 3, "block.2": 2, "block.3": 1, "part": part or 0},
        small | {"tile.1": 2, "tile.2": 1, "tile.3": 1, "terms": last, "unroll": 4},
        default,
    ):
        s = sketch_schedule(given, values)
        if values is not default:
            assert "skip_pads" in {step.primitive for step in s.trace}
        packed = pack_arrays(s.trace, arrays)
        packed["Y"] = np.full(expected.shape, 99, np.float32)
        build(s.program)(**packed)
        np.testing.assert_array_equal(packed["Y"], expected)


def test_tiles_of_far_apart_taps_are_small() -> None:
    """Large dilations make most taps read only pads. The 3x3 taps are 12 positions apart on a plane of 14 x 14, so only
    9 of 49 products (18%) are needed. With tiles of whole rows, 43% of all products would be computed; with the chosen
    tiles, the share must be less than 30%.
    """
    window = Window(kernel=(3, 3), dilations=(12, 12), pads=(12, 12, 12, 12))
    program = blocked_convolution(
        Convolution(batch=1, channels=64, height=14, width=14, filters=64, window=window),
        block_in=16,
        block_out=16,
    )
    given = find_sketches(program, host_target(), constants=frozenset({"W"}))
    values = default_values(given)
    assert given.main is not None
    rows, columns = taps_of(program, given.main)
    assert rows.live(values["tile.1"], 14) * columns.live(values["tile.2"], 14) < 0.3
