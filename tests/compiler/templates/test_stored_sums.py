"""CPU convolutions whose sums are kept in memory while parts of the weights are processed: equal results, and chosen
for deep sums.
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
from vdla.compiler.templates.cpu import conv2d as conv2d_cpu
from vdla.compiler.templates.cpu.conv2d_default import NEAR_SHARE, choose_knobs
from vdla.compiler.templates.cpu.conv2d_knobs import Knobs

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
    # Tiles, blocks, strips and parts that do not divide what they are cut from.
    (PADDED, (4, 6), Knobs(rows=3, columns=2, vectors=2, row_block=6, strips=2, part=2)),
    (
        PADDED,
        (5, 5),
        Knobs(rows=2, columns=3, vectors=1, row_block=4, column_block=3, strips=3, part=1, tiles="columns"),
    ),
    (STRIDED, (3, 9), Knobs(rows=1, columns=3, vectors=3, row_block=2, strips=1, part=3, panels="outside")),
    (POINT, (1, 19), Knobs(rows=1, columns=6, vectors=2, row_block=1, column_block=12, strips=1, part=3)),
    (
        POINT,
        (1, 9),
        Knobs(
            rows=1, columns=2, vectors=2, row_block=1, strips=4, part=2, lanes=2, inner="positions", unroll=2
        ),
    ),
    # A single part is a sum in registers.
    (POINT, (1, 7), Knobs(rows=1, columns=3, vectors=2, row_block=1, strips=2, part=9)),
]


@pytest.mark.parametrize(
    ("window", "size", "knobs", "threads"),
    representatives(
        [(*case, threads) for case in CASES for threads in (False, True)],
        2,
        always=[(*CASES[1], False), (*CASES[1], True)],
    ),
)
def test_sums_in_memory_are_the_same(window, size, knobs, threads) -> None:
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
        return conv2d_cpu.schedule(target, program, window, knobs, parallel=parallel or threads)

    s = schedule(host_target(), program, parallel=False)
    stored = any(step.primitive == "set_scope" and "workspace" in step.arguments for step in s.trace)
    assert stored == (knobs.part != 9 or any(window.pads))
    (got,) = run(program, arrays, schedule, host_target())
    np.testing.assert_array_equal(got, evaluate(program, arrays))


def chosen(size: int, channels: int, filters: int, kernel: int, **more: bool) -> Knobs:
    pad = kernel // 2
    window = Window(kernel=(kernel, kernel), pads=(pad, pad, pad, pad))
    height, width = (size, size) if kernel > 1 else (1, size * size)
    program = blocked_convolution(
        Convolution(batch=1, channels=channels, height=height, width=width, filters=filters, window=window),
        block_in=16,
        block_out=16,
    )
    return choose_knobs(SERVER, program, window, **more)


@pytest.mark.parametrize("parallel", [False, True], ids=["one thread", "threads"])
def test_deep_sums_lie_in_memory(parallel) -> None:
    # A panel of the first one's weights is more than the second-level cache holds.
    for layer in ((28, 2048, 512, 3), (28, 2048, 512, 1), (28, 1024, 2048, 1)):
        knobs = chosen(*layer, parallel=parallel)
        assert knobs.strips is not None and knobs.part is not None
        weights = 4 * 16 * knobs.vectors * 16 * knobs.part * layer[3] ** 2
        assert weights <= max(NEAR_SHARE, 0.75) * SERVER.cache_bytes[0]
    for layer in ((56, 64, 64, 3), (28, 512, 128, 1), (14, 256, 256, 3), (7, 512, 512, 3), (7, 512, 2048, 1)):
        assert chosen(*layer, parallel=parallel).strips is None
