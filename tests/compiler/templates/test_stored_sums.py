"""Some CPU convolutions keep their sums in memory: they process all outputs with one part of the weights, then with the
next part. The results stay equal, and the default schedule chooses this for sums of many products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives
from kernels import evaluate, run

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.sketch.convolution import HELD_SHARE
from vdla.compiler.templates.cpu.sketch.default import default_values
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import INLINE, INNERMOST, MIDDLE, WHOLE, find_sketches

SERVER = replace(
    host_target(),
    vector_bits=512,
    vector_registers=32,
    fused_multiply_add=True,
    cache_bytes=(48 * 1024, 2048 * 1024),
)
PADDED = Window(kernel=(3, 2), pads=(1, 0, 1, 2), dilations=(2, 1))
STRIDED = Window(kernel=(1, 3), strides=(1, 2))
POINT = Window(kernel=(1, 1))
CASES = [
    # Tiles, blocks and parts that do not divide the loops that they cut.
    (PADDED, (4, 6), {"tile.0": 2, "block.0": 2, "tile.1": 3, "block.1": 1, "tile.2": 2, "part": 2}),
    (
        PADDED,
        (5, 5),
        {"block.0": 2, "tile.1": 2, "block.1": 2, "tile.2": 3, "block.2": 1, "part": 1, "order": 2},
    ),
    (PADDED, (5, 5), {"tile.1": 2, "tile.2": 3, "part": 2, "producer": INNERMOST}),
    (PADDED, (5, 5), {"tile.1": 2, "tile.2": 3, "block.2": 1, "part": 2, "producer": MIDDLE}),
    (PADDED, (5, 5), {"tile.1": 2, "tile.2": 3, "part": 2, "producer": INLINE}),
    (STRIDED, (3, 9), {"tile.0": 3, "block.0": 1, "tile.1": 1, "block.1": 2, "tile.2": 2, "part": 2}),
    (POINT, (1, 19), {"tile.0": 2, "block.0": 1, "tile.1": 5, "block.1": 2, "part": 2}),
    (POINT, (1, 9), {"tile.0": 2, "tile.1": 2, "tile.2": 2, "part": 2, "unroll": 2, "block.0": 2}),
    # A single part is a sum in registers.
    (POINT, (1, 7), {"tile.0": 2, "tile.1": 3, "part": 0}),
]


@pytest.mark.parametrize(
    ("window", "size", "values", "threads"),
    representatives(
        [(*case, threads) for case in CASES for threads in (False, True)],
        2,
        always=[(*CASES[1], False), (*CASES[1], True)],
    ),
)
def test_sums_in_memory_are_the_same(window, size, values, threads) -> None:
    program = blocked_convolution(
        Convolution(batch=1, channels=28, height=size[0], width=size[1], filters=18, window=window),
        block_in=4,
        block_out=4,
        sums=FloatSums(epilogue=Epilogue(bias=True, operand=True, activation="relu")),
    )
    rng = np.random.default_rng(size[1])
    arrays = {p.name: rng.integers(-4, 5, p.shape).astype(np.float32) for p in program.parameters[:-1]}
    arrays["W"][:, 18:] = 0

    def schedule(target, program, *, parallel):
        given = find_sketches(program, target, constants=frozenset({"W"}), parallel=parallel or threads)
        own = {axis.name: axis.values[0] for axis in given.axes} | {"pack.1": 1, "stored": 1}
        lane = f"tile.{len(given.main.axles) - 1}"
        return sketch_schedule(given, own | {lane: 4, "producer": WHOLE} | values)

    s = schedule(host_target(), program, parallel=False)
    assert ("sum", "workspace") in [step.arguments for step in s.trace] or values["part"] == 0
    (got,) = run(program, arrays, schedule, host_target())
    np.testing.assert_array_equal(got, evaluate(program, arrays))


def chosen(size: int, channels: int, filters: int, kernel: int, parallel: bool) -> dict[str, int]:
    pad = kernel // 2
    window = Window(kernel=(kernel, kernel), pads=(pad, pad, pad, pad))
    shape = Convolution(batch=1, channels=channels, height=size, width=size, filters=filters, window=window)
    program = blocked_convolution(shape.in_one_row(), block_in=16, block_out=16)
    return default_values(find_sketches(program, SERVER, constants=frozenset({"W"}), parallel=parallel))


@pytest.mark.parametrize("parallel", [False, True], ids=["one thread", "threads"])
def test_only_deep_sums_are_kept_in_memory(parallel) -> None:
    # A panel of the first one's weights is more than the second-level cache holds.
    for layer in ((28, 2048, 512, 1), (28, 1024, 2048, 1)):
        values = chosen(*layer, parallel=parallel)
        assert values["stored"] == 1 and values["part"] > 0
        weights = 4 * 16 * values["tile.0"] * 16 * values["part"] * layer[3] ** 2
        assert weights <= max(HELD_SHARE, 0.75) * SERVER.cache_bytes[0]
    for layer in ((56, 64, 64, 3), (28, 512, 128, 1), (14, 256, 256, 3), (7, 512, 512, 3), (7, 512, 2048, 1)):
        assert chosen(*layer, parallel=parallel)["stored"] == 0
