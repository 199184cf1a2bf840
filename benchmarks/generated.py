"""Default schedules that the generator makes, against the hand-written templates that it replaced.

    python benchmarks/generated.py [NAME ...] [--rounds 15] [--json] [--write]

The file of results stores the traces of the templates' schedules for each vector width of the computer on which it was
made; every run replays them. Both kernels run in turns on one thread, in thread CPU time. `hand`: median microseconds
of the template's kernel; `ratio`: the template's time over the generator's, the median over the rounds, above 1 where
the generator is faster. A template may be deleted where the generator has at least 0.97 of its speed. If other programs
run on the processor, ratios of equal kernels vary by 10%.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from vdla.benchmarks.harness.command_line import OUTPUT, ROUNDS, Given, names_of, run_script
from vdla.benchmarks.harness.output import finish, measure_all
from vdla.benchmarks.harness.results import RESULTS
from vdla.benchmarks.sketches import bound
from vdla.codesign.timing import interleaved, ratio
from vdla.codesign.workload_names import transposed_window
from vdla.compiler.codegen.cpu.intrinsics import intrinsics
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.memory import aligned_copy
from vdla.compiler.codegen.cpu.x86_levels import host_target_at
from vdla.compiler.ir.stmt import Program
from vdla.compiler.ir.types import DType
from vdla.compiler.schedule.replay import replay
from vdla.compiler.schedule.trace_json import trace_from_lists
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import (
    FloatSums,
    QuantizedSums,
    Sums,
    blocked_convolution,
    blocked_depthwise,
)
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.ops.folds import running_product
from vdla.compiler.te.ops.movement import concat, gather, permute
from vdla.compiler.te.ops.normalization import Normalized, normalize
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.quantization import load_activation, store_activation
from vdla.compiler.te.ops.reduction import reduction
from vdla.compiler.te.ops.relayout import relayout
from vdla.compiler.te.ops.resize import resize
from vdla.compiler.te.ops.softmax import softmax
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.post import Post
from vdla.compiler.te.scalars import argument, gelu
from vdla.compiler.templates.cpu.lowered import scheduled

PRODUCTS = (
    (4, 128, 64, 128, True),
    (12, 384, 64, 384, True),
    (12, 384, 384, 64, False),
    (12, 197, 64, 197, True),
    (12, 197, 197, 64, False),
    (16, 1024, 64, 1024, True),
    (12, 1, 64, 128, True),
    (12, 1, 128, 64, False),
    (1, 50, 70, 33, False),
)
"""Measured products of two activations: (batch, rows, depth, columns, whether the second activation is transposed)."""
REDUCTIONS = (
    ((64, 256, 256), (1,)),
    ((64, 100, 40), (1,)),
    ((8, 512, 768), (0,)),
    ((32, 49, 1000), (1,)),
    ((4, 7, 7, 512), (1, 2)),
    ((128, 128, 16), (1,)),
    ((512, 3, 80), (1,)),
    ((2, 3000, 20), (1,)),
    ((1, 196, 1024), (1,)),
)
"""Measured sums: (shape of the input, axes that are summed); the last axis is not summed."""
POOLS: tuple[tuple[int, int, int, int, int, int, Literal["max", "average"]], ...] = (
    (4, 112, 16, 3, 2, 1, "max"),
    (4, 112, 16, 2, 2, 0, "max"),
    (8, 35, 16, 3, 1, 1, "average"),
    (16, 28, 16, 3, 1, 1, "max"),
    (16, 13, 16, 5, 1, 2, "max"),
    (16, 13, 16, 9, 1, 4, "max"),
    (32, 7, 16, 7, 1, 0, "average"),
    (24, 7, 4, 3, 1, 1, "average"),
    (3, 224, 1, 3, 1, 1, "average"),
    (3, 64, 1, 3, 2, 1, "max"),
    (4, 17, 1, 5, 1, 2, "max"),
)
"""Measured pools: (planes, height and width, channels in a block, kernel, stride, pads, kind)."""
DEPTHWISE = (
    (32, 112, 3, 1, 1, "float"),
    (64, 112, 3, 2, 1, "float"),
    (144, 56, 3, 2, 1, "float"),
    (512, 14, 3, 1, 1, "float"),
    (1024, 7, 3, 1, 1, "float"),
    (240, 28, 5, 1, 1, "float"),
    (672, 14, 5, 2, 1, "float"),
    (96, 56, 7, 1, 1, "float"),
    (768, 7, 7, 1, 1, "float"),
    (64, 28, 3, 1, 2, "float"),
    (64, 112, 3, 2, 1, "int8"),
    (256, 28, 3, 1, 1, "int8"),
    (240, 28, 5, 1, 1, "int8"),
    (96, 56, 7, 1, 1, "int8"),
)
"""Measured depthwise convolutions with SAME padding: (channels, height and width, kernel, stride, dilation, type)."""
CONVOLUTIONS = (
    (1, 3, 224, 64, 7, 2, 1, 1),
    (1, 3, 224, 32, 3, 2, 1, 1),
    (1, 64, 56, 64, 3, 1, 1, 1),
    (1, 64, 56, 64, 1, 1, 1, 1),
    (1, 64, 56, 256, 1, 1, 1, 1),
    (1, 64, 56, 128, 1, 2, 1, 1),
    (1, 128, 28, 128, 3, 1, 1, 1),
    (1, 128, 28, 256, 3, 2, 1, 1),
    (1, 256, 14, 256, 3, 1, 1, 1),
    (1, 512, 7, 512, 3, 1, 1, 1),
    (1, 512, 28, 128, 1, 1, 1, 1),
    (1, 1024, 14, 256, 1, 1, 1, 1),
    (1, 2048, 7, 512, 1, 1, 1, 1),
    (1, 512, 7, 2048, 1, 1, 1, 1),
    (1, 96, 56, 24, 1, 1, 1, 1),
    (1, 48, 35, 64, 5, 1, 1, 1),
    (1, 512, 28, 512, 3, 1, 2, 1),
    (1, 256, 14, 256, 3, 1, 12, 1),
    (1, 64, 56, 1, 3, 1, 1, 1),
    (1, 64, 56, 17, 3, 1, 1, 1),
    (1, 256, 14, 256, 3, 1, 1, 8),
    (1, 1280, 1, 1000, 1, 1, 1, 1),
    (8, 256, 14, 256, 1, 1, 1, 1),
)
"""Measured convolutions with SAME padding: (batch, channels, height and width, filters, kernel, stride, dilation,
groups).
"""
INTEGERS = (
    (1, 64, 56, 64, 3, 1, 1, 1),
    (1, 64, 56, 64, 1, 1, 1, 1),
    (1, 64, 56, 128, 1, 2, 1, 1),
    (1, 128, 28, 128, 3, 1, 1, 1),
    (1, 256, 14, 256, 3, 1, 1, 1),
    (1, 512, 7, 512, 3, 1, 1, 1),
    (1, 2048, 7, 512, 1, 1, 1, 1),
    (1, 96, 56, 24, 1, 1, 1, 1),
    (32, 2048, 1, 1000, 1, 1, 1, 1),
    (8, 256, 14, 256, 1, 1, 1, 1),
)
"""Measured convolutions of integers with SAME padding: (batch, channels, height and width, filters, kernel, stride,
dilation, groups).
"""
TRANSPOSED = (
    (14, 128, 64, 4, 2),
    (28, 64, 32, 2, 2),
    (7, 256, 128, 3, 2),
    (4, 512, 256, 4, 2),
    (56, 64, 3, 4, 2),
    (28, 32, 32, 3, 1),
    (56, 64, 1, 4, 2),
    (16, 128, 128, 5, 3),
)
"""Measured transposed convolutions: (height and width, channels, filters, kernel, stride)."""
LANES = {"dots": 16, "avx512": 16, "avx2": 8, "sse": 4}
"""Number of channels in a block of activations, by the processor's vector extension; "dots" stands for AVX-512 with dot
products of integers.
"""
DENSE = (
    (1, 768, 768),
    (1, 1000, 1000),
    (16, 768, 768),
    (49, 512, 2048),
    (128, 768, 3072),
    (128, 3072, 768),
    (197, 384, 1536),
    (512, 512, 512),
    (100, 27, 30),
    (1024, 64, 256),
)
"""Sizes (rows, depth, columns) of the measured products with weights W."""
ACTIVATION: Mapping[str, Any] = {"batch": 1, "channels": 60, "plane": 784, "scale": 0.1, "zero_point": 2}
"""Shape (batch, channels, elements of a channel) and quantization of the tensor that is quantized or dequantized in the
programs measured.
"""
NESTS: Mapping[str, Callable[[int], Program]] = {
    "permute:9x70x130 to 9x130x70": lambda _: permute((9, 70, 130), (0, 2, 1)),
    "permute:256x256 to 256x256": lambda _: permute((256, 256), (1, 0)),
    "permute:64x56x56 to 56x56x64": lambda _: permute((64, 56, 56), (1, 2, 0)),
    "permute:12x384x64 to 384x12x64": lambda _: permute((12, 384, 64), (1, 0, 2)),
    "permute:128x20x33 to 33x20x128": lambda _: permute((128, 20, 33), (2, 1, 0)),
    "blocks:64x784": lambda lanes: relayout(batch=1, channels=64, plane=784, block_in=1, block_out=lanes),
    "rows of blocks:64x784": lambda lanes: relayout(
        batch=1, channels=64, plane=784, block_in=lanes, block_out=1
    ),
    "resize:64x14x14": lambda _: resize(
        outer=64, height=14, width=14, lanes=1, outputs=(28, 28), mode="linear"
    ),
    "resize:4x14x14 blocks": lambda lanes: resize(
        outer=4, height=14, width=14, lanes=lanes, outputs=(28, 28), mode="linear"
    ),
    "concatenation:64x300,64x500": lambda _: concat([(64, 300), (64, 500)], 1),
    "gather:128 of 1000x96": lambda _: gather((1000, 96), 0, 128),
    "add:64x900": lambda _: float_elementwise([(64, 900)] * 2, argument(0) + argument(1)),
    "scale:64x900": lambda _: float_elementwise([(64, 900), (64, 1)], argument(0) * argument(1)),
    "gelu:40000": lambda _: float_elementwise([(40000,)], gelu(argument(0))),
    "add:12x64x50": lambda _: float_elementwise(
        [(12, 64, 50), (64, 1), (12, 1, 50)], argument(0) * argument(1) + argument(2)
    ),
    "softmax:384x384": lambda lanes: softmax((384, 384), -1, width=4 * lanes),
    "softmax of columns:4x50x384": lambda lanes: softmax((4, 50, 384), 1, width=4 * lanes),
    "normalization:128x768": lambda lanes: normalize(
        Normalized(outer=128, channels=1, size=768, epsilon=1e-5), width=4 * lanes
    ),
    "mean:512x49": lambda lanes: reduction((512, 49), (1,), "mean", width=4 * lanes),
    "cumulative sum:16x200x128": lambda _: running_product((16, 200, 128), 1, product=False),
    "quantize:60x784": lambda lanes: store_activation(**ACTIVATION, block=lanes, dtype=DType.FLOAT32),
    "dequantize:60x784": lambda lanes: load_activation(**ACTIVATION, block=lanes, dtype=DType.FLOAT32),
}
"""Measured programs without sums (element-wise operators and moves), by name. Each is a function of the number of
channels in a block of activations.
"""
LEAST_SECONDS = 2e-3


def _window(kernel: int, stride: int, dilation: int) -> Window:
    """A window of `kernel` x `kernel` with equal pads on all sides, which for a stride of 1 keep the image's size."""
    pad = (kernel - 1) * dilation // 2
    return Window(
        kernel=(kernel, kernel),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
        dilations=(dilation, dilation),
    )


def _depthwise(
    channels: int, size: int, kernel: int, stride: int, dilation: int, kind: str, lanes: int
) -> Program:
    """The program of a depthwise convolution of images of `size` x `size` on blocks of `lanes` channels; `kind`: the
    element type, "float" or "int8".
    """
    window = _window(kernel, stride, dilation)
    shape = Convolution(
        batch=1, channels=channels, filters=channels, groups=channels, height=size, width=size, window=window
    )
    return blocked_depthwise(shape, block=lanes, sums=_sums(kind))


def _convolution(sizes: Sequence[int], kind: str, lanes: int) -> Program:
    """The program of a convolution, whose `sizes` are those of a row of `CONVOLUTIONS`. `kind`: the element type,
    "float" or "int8". Inputs are in blocks of `lanes` channels, or of one channel if the channels of a group are no
    multiple of `lanes`; outputs in blocks of `lanes` channels, or of a group's filters if these are fewer.
    """
    batch, channels, size, filters, kernel, stride, dilation, groups = sizes
    shape = Convolution(
        batch=batch,
        channels=channels,
        filters=filters,
        groups=groups,
        height=size,
        width=size,
        window=_window(kernel, stride, dilation),
    )
    return blocked_convolution(
        shape.in_one_row(),
        block_in=lanes if channels // groups % lanes == 0 else 1,
        block_out=min(filters // groups, lanes),
        sums=_sums(kind),
    )


def _transposed(size: int, channels: int, filters: int, kernel: int, stride: int, lanes: int) -> Program:
    """The program of a transposed convolution of images of `size` x `size`. Inputs are in blocks of `lanes` channels,
    outputs in blocks of `lanes` channels or of all filters, if there are fewer.
    """
    window, padding = transposed_window("", kernel, stride)
    shape = Convolution(
        batch=1,
        channels=channels,
        filters=filters,
        height=size,
        width=size,
        window=window,
        transposed=True,
        output_padding=padding,
    )
    return blocked_convolution(shape, block_in=lanes, block_out=min(filters, lanes))


def _sums(kind: str) -> Sums:
    if kind == "float":
        return FloatSums(epilogue=Epilogue(bias=True, activation="relu"))
    return QuantizedSums(pad_value=3, post=Post(zero_point=-3, low=-3))


def _cases() -> dict[str, Callable[[int], Program]]:
    """The measured programs by name. Each value is a function that makes the program, given the number of channels in a
    block of activations.
    """
    found: dict[str, Callable[[int], Program]] = {}
    for batch, rows, depth, columns, transposed in PRODUCTS:
        sizes = Matrices(
            rows=rows,
            depth=depth,
            columns=columns,
            batch_x=(batch,),
            batch_w=(batch,),
            transposed_w=transposed,
        )
        name = f"matmul:{batch},{rows},{depth},{columns}{',transposed' * transposed}"
        found[name] = partial(_unchanged, product(sizes, name="matmul"))
    for shape, axes in REDUCTIONS:
        name = f"sum:{'x'.join(map(str, shape))} over {','.join(map(str, axes))}"
        found[name] = partial(_unchanged, reduction(shape, axes, "sum"))
    for outer, size, lanes, kernel, stride, pad, kind in POOLS:
        name = f"{kind}-pool:{outer}x{size}x{size}x{lanes},{kernel},{stride},{pad}"
        window = Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad))
        program = float_pool((outer, size, size, lanes), window, kind)
        found[name] = partial(_unchanged, program)
    for rows, depth, columns in DENSE:
        epilogue = Epilogue(bias=True, activation="relu")
        program = product(Matrices(rows=rows, depth=depth, columns=columns), epilogue=epilogue)
        found[f"dense:{rows},{depth},{columns}"] = partial(_unchanged, program)
    for channels, size, kernel, stride, dilation, kind in DEPTHWISE:
        name = f"depthwise:{channels}x{size}x{size},{kernel},{stride},{dilation},{kind}"
        found[name] = partial(_depthwise, channels, size, kernel, stride, dilation, kind)
    for row, kind in [(row, "float") for row in CONVOLUTIONS] + [(row, "int8") for row in INTEGERS]:
        batch, channels, size, *more = row
        name = f"conv2d:{batch}x{channels}x{size}x{size},{','.join(map(str, more))}"
        found[name + ",int8" * (kind == "int8")] = partial(_convolution, row, kind)
    for sizes in TRANSPOSED:
        found[f"conv_transpose:{','.join(map(str, sizes))}"] = partial(_transposed, *sizes)
    return {**found, **NESTS}


def _unchanged(program: Program, _lanes: int) -> Program:
    return program


CASES = _cases()
RESULT = "generated"


def measure(name: str, level: str, hand: list[Any], rounds: int) -> dict[str, Any]:
    """Measures the program `name` with the generator's and the template's schedule; returns its row. `level`: vector
    extension of the processor; `hand`: the stored trace of the template's schedule.
    """
    program = CASES[name](LANES[level])
    target, rng = host_target() if level == "dots" else host_target_at(level), np.random.default_rng(0)
    # On cache lines, as in networks; both kernels read the same arrays.
    arrays = {
        p.name: aligned_copy(
            rng.integers(0, 100, p.shape).astype(p.dtype.numpy)
            if p.dtype.is_integer
            else rng.standard_normal(p.shape, np.float32),
            p.shape,
        )
        for p in program.parameters
    }
    constants = frozenset({"W"} if name.startswith(("dense:", "conv")) else ())
    schedules = (replay(program, trace_from_lists(hand), intrinsics()), scheduled(target, program, constants))
    kernels = [bound(target, schedule, arrays) for schedule in schedules]
    of_hand, generated = interleaved(time.thread_time, kernels, rounds, least=LEAST_SECONDS)
    found = {"name": name, "level": level, "hand": statistics.median(of_hand) * 1e6}
    return {**found, "ratio": ratio(of_hand, generated), "trace": hand}


def line(row: dict[str, Any]) -> str:
    return f"{row['name']:36}{row['level']:8}{row['hand']:12.1f}{row['ratio']:8.3f}"


OPTIONS = (names_of(CASES, "case"), ROUNDS.but(default=15), *OUTPUT)


def main(options: Given) -> None:
    kept = json.loads((RESULTS / f"{RESULT}.json").read_text())["rows"]
    wanted = [row for row in kept if row["name"] in (options.names or CASES)]
    rows = measure_all(
        wanted,
        lambda row: measure(row["name"], row["level"], row["trace"], options.rounds),
        line,
        quiet=options.json,
    )
    worst = min(row["ratio"] for row in rows)
    mean = statistics.geometric_mean(row["ratio"] for row in rows)
    lines = [f"geometric mean {mean:.3f}, least {worst:.3f}"]
    finish(options, RESULT, {"geomean": mean, "least": worst, "rows": rows}, lines=lines, compact=True)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
