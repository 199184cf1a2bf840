"""Templates of CPU kernels: their traces replay, and compiled kernels equal the unscheduled program in the
interpreter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives
from dense_schedules import convolution, dense

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.compiler.codegen.cpu.errors import TargetError
from vdla.compiler.codegen.cpu.intrinsics import intrinsics
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target, runs_here
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.codegen.cpu.x86_levels import GENERIC_LEVELS, host_target_at
from vdla.compiler.ir.expr import Call, Const, maximum
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.named_nodes import rewrite_at
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import loops
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution, blocked_depthwise
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.lowered import scheduled
from vdla.compiler.templates.cpu.sketch.default import default_values
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import INLINE, MIDDLE, OUTERMOST, find_sketches

FULL = Epilogue(bias=True, operand=True, activation="relu")


def targets():
    """The host's target, and targets of the lower vector extensions that the host supports."""
    found = [host_target()]
    for level in GENERIC_LEVELS:
        try:
            found.append(host_target_at(level))
        except TargetError:
            continue
    return found


TARGETS = targets()
NARROW_DOTS = parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -mattr=+avxvnni")
"""A CPU target with the dot-product instruction in 256-bit registers."""


def arrays_of(program):
    rng = np.random.default_rng(0)
    arrays = {}
    for p in program.parameters:
        if p.dtype.is_integer:
            low, high = p.dtype.limits if p.dtype.bits == 8 else (0, 1)
            arrays[p.name] = rng.integers(low, high + 1, p.shape).astype(p.dtype.numpy)
        else:
            # Eighths: sums of a few products are exact, so that any order gives the same float32.
            arrays[p.name] = (rng.integers(-8, 9, p.shape) / 8).astype(np.float32)
    return arrays


def check(program, s, target, pool=None):
    arrays = arrays_of(program)
    expected = interpret(program, arrays)["Y"]
    again = replay(program, trace_from_lists(trace_to_lists(s.trace)), intrinsics())
    assert again.program == s.program
    packed = pack_arrays(s.trace, arrays)
    packed["Y"] = np.full_like(arrays["Y"], 99)
    kernel = build(s.program, target)
    kernel.bind(packed, pool)()
    np.testing.assert_array_equal(packed["Y"], expected)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("shape", [(1, 5, 7), (7, 9, 37), (29, 3, 50)])
def test_dense(target, shape):
    rows, depth, columns = shape
    program = product(Matrices(rows=rows, depth=depth, columns=columns), epilogue=FULL)
    check(program, dense(target, program), target)


@pytest.mark.parametrize(
    ("shape", "steps", "hints"),
    [
        ((11, 768, 17), 4, True),
        ((11, 770, 17), 2, True),
        ((11, 771, 17), 3, True),
        # Weights that stay near, and weights that pass by once.
        ((11, 16, 33), 4, False),
        ((1, 768, 33), 4, False),
    ],
)
def test_dense_writes_out_steps_and_asks_for_weights_early(shape, steps, hints):
    target = replace(host_target(), cache_bytes=(32 * 1024, 512 * 1024))
    rows, depth, columns = shape
    program = product(Matrices(rows=rows, depth=depth, columns=columns))
    schedule = dense(target, program)
    innermost = [loop for loop in loops(schedule.program) if loop.name.startswith("dense.k")][-1]
    assert innermost.kind == "unroll" and innermost.extent == Const(steps)
    assert ("prefetch" in {step.primitive for step in schedule.trace}) == hints
    check(program, schedule, target)


@pytest.mark.parametrize(
    "target",
    [*TARGETS, *([NARROW_DOTS] if runs_here(NARROW_DOTS) else [])],
    ids=lambda t: t.cpu + t.features[-8:],
)
@pytest.mark.parametrize("shape", [(3, 8, 16), (9, 11, 41), (2, 5, 17)])
def test_dense_int8(target, shape):
    rows, depth, columns = shape
    program = product(Matrices(rows=rows, depth=depth, columns=columns), types=DOT_INT8)
    s = dense_int8(target, program)
    assert ("tensorize" in {step.primitive for step in s.trace}) == target.dot_product
    check(program, s, target)


WINDOWS = [
    (Window(kernel=(3, 3), pads=(1, 1, 1, 1)), (3, 9)),
    (Window(kernel=(1, 1)), (1, 9)),
    (Window(kernel=(2, 3), strides=(2, 2), pads=(0, 1, 2, 0), dilations=(1, 2)), (5, 6)),
]


@pytest.mark.parametrize("target", TARGETS[:1] + TARGETS[-1:], ids=lambda t: t.cpu)
@pytest.mark.parametrize(("window", "size"), WINDOWS)
def test_conv2d(target, window, size):
    program = blocked_convolution(
        Convolution(batch=1, channels=4, height=size[0], width=size[1], filters=14, window=window, groups=2),
        block_in=2,
        block_out=4,
        sums=FloatSums(epilogue=Epilogue(bias=True, operand=True, activation="clip", low=-1.0, high=2.0)),
    )
    check(program, convolution(target, program), target)


def test_conv2d_in_blocks_of_rows_that_do_not_divide():
    target = host_target()
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    program = blocked_convolution(
        Convolution(batch=1, channels=2, height=7, width=4, filters=8, window=window), block_in=1, block_out=4
    )
    given = find_sketches(program, target, constants=frozenset({"W"}))
    assert given.main is not None
    assert [axle.name for axle in given.main.axles] == ["o", "y", "x", "j"]
    for rows, tiles in ((2, 2), (3, 1), (2, 4), (1, 0)):
        values = {**default_values(given), "tile.0": 2, "tile.1": rows, "block.1": tiles, "tile.2": 2}
        check(program, sketch_schedule(given, values | {"producer": OUTERMOST}), target)


@pytest.mark.parametrize("window", [Window(kernel=(1, 1)), Window(kernel=(1, 3), pads=(0, 1, 0, 1))])
def test_conv2d_of_one_row_in_blocks_of_columns(window):
    target = host_target()
    program = blocked_convolution(
        Convolution(batch=1, channels=96, height=1, width=23, filters=9, window=window),
        block_in=2,
        block_out=4,
    )
    given = find_sketches(program, target, constants=frozenset({"W"}), parallel=True)
    assert given.main is not None
    assert [axle.name for axle in given.main.axles] == ["o", "x", "j"]
    s = sketch_schedule(given, {**default_values(given), "tile.0": 2, "tile.1": 3, "block.1": 4})
    assert [step.arguments[0] for step in s.trace if "parallel" in step.arguments] == ["x.0"]
    with Pool(2) as pool:
        check(program, s, target, pool)


def test_far_weights_of_sums_in_parts_are_asked_for_early():
    # As a vision transformer begins: loops of one iteration are in the nest of the parts and in the other.
    target = replace(host_target(), cache_bytes=(2**13, 2**15))
    window = Window(kernel=(16, 16), strides=(16, 16))
    program = blocked_convolution(
        Convolution(batch=1, channels=3, height=16, width=16, filters=16, window=window),
        block_in=1,
        block_out=16,
    )
    s = convolution(target, program)
    names = [step.primitive for step in s.trace]
    assert "rfactor" in names and "prefetch" in names
    check(program, s, target)


def test_long_rows_of_few_filters_are_cut_for_threads():
    program = blocked_convolution(
        Convolution(batch=1, channels=32, height=1, width=3136, filters=64, window=Window(kernel=(1, 1))),
        block_in=16,
        block_out=16,
    )
    given = find_sketches(program, host_target(), constants=frozenset({"W"}), parallel=True)
    values = default_values(given)
    assert values["block.1"] > 0
    assert 3136 / (values["tile.1"] * values["block.1"]) >= 8


@pytest.mark.parametrize("target", TARGETS[:1] + TARGETS[-1:], ids=lambda t: t.cpu)
@pytest.mark.parametrize(("window", "size"), [*WINDOWS, (Window(kernel=(3, 3), pads=(3, 3, 3, 3)), (2, 11))])
def test_depthwise(target, window, size):
    program = blocked_depthwise(
        Convolution(batch=1, channels=7, height=size[0], width=size[1], filters=7, window=window, groups=7),
        block=4,
        sums=FloatSums(epilogue=FULL),
    )
    check(program, scheduled(target, program), target)


@pytest.mark.parametrize(("size",), representatives([((11, 23),), ((7, 7),)], 0, always=[((7, 7),)]))
def test_borders_wider_than_tiles_are_copied(size):
    window = Window(kernel=(7, 7), pads=(3, 3, 3, 3))
    program = blocked_depthwise(
        Convolution(batch=1, channels=7, height=size[0], width=size[1], filters=7, window=window, groups=7),
        block=4,
    )
    target = host_target()
    little = replace(target, cache_bytes=(1 << 10, 1 << 11))
    for machine, place in ((target, OUTERMOST), (little, MIDDLE)):
        given = find_sketches(program, machine)
        values = default_values(given)
        # A plane of a block of channels or, if caches are small, a block of its rows.
        assert values["producer"] == place and (values["block.1"] > 0) == (place == MIDDLE)
        s = sketch_schedule(given, values)
        check(program, s, machine)
        # Asking at every tap whether it is inside takes several times as much code.
        asking = sketch_schedule(given, values | {"producer": INLINE})
        texts = [lower(one.program, machine).text for one in (s, asking)]
        assert 2 * len(texts[0]) < len(texts[1])


def rooted(program):
    """The program with each result r replaced by the square root of max(r, 0)."""

    def root(statement):
        return replace(statement, value=Call("sqrt", (maximum(statement.value, 0.0),), DType.FLOAT32))

    return rewrite_at(program, "post", root)


@pytest.mark.parametrize(("window", "size"), WINDOWS[:3])
def test_depthwise_before_functions(window, size):
    program = rooted(
        blocked_depthwise(
            Convolution(
                batch=1, channels=7, height=size[0], width=size[1], filters=7, window=window, groups=7
            ),
            block=4,
            sums=FloatSums(epilogue=FULL),
        )
    )
    s = scheduled(host_target(), program)
    arrays = arrays_of(program)
    expected = interpret(program, arrays, functions=FUNCTIONS)["Y"]
    packed = pack_arrays(s.trace, arrays)
    build(s.program)(**packed)
    np.testing.assert_array_equal(packed["Y"], expected)


def test_functions_are_not_written_out_for_every_column():
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    program = rooted(
        blocked_depthwise(
            Convolution(batch=1, channels=4, height=28, width=28, filters=4, window=window, groups=4), block=4
        )
    )
    text = lower(scheduled(host_target(), program).program, host_target()).text
    # Nine kernels, those of the border and the one within, each with its two rows.
    assert text.count("call <4 x float> @llvm.sqrt") == 18


def test_flattened():
    for window, sizes in (
        (Window(kernel=(1, 1)), (1, 35)),
        (Window(kernel=(1, 1), strides=(2, 2)), (7, 5)),
        (Window(kernel=(3, 3)), (7, 5)),
    ):
        shape = Convolution(batch=1, channels=1, height=7, width=5, filters=1, window=window).in_one_row()
        assert (shape.height, shape.width) == sizes


def test_parallel_kernels():
    target = host_target()
    window = WINDOWS[0][0]
    sizes = {"batch": 1, "channels": 8, "height": 6, "width": 5, "window": window}
    # The generator leaves loops of less work to one thread.
    large = sizes | {"height": 20, "width": 12}
    conv = blocked_convolution(Convolution(**large, filters=8), block_in=8, block_out=4)
    depthwise = blocked_depthwise(Convolution(**large, filters=8, groups=8), block=2)
    plain, int8 = (
        product(Matrices(rows=30, depth=9, columns=70)),
        product(Matrices(rows=9, depth=5, columns=70), types=DOT_INT8),
    )
    with Pool(2) as pool:
        for program, s in (
            (conv, convolution(target, conv, parallel=True)),
            (depthwise, scheduled(target, depthwise, parallel=True)),
            (plain, dense(target, plain, parallel=True)),
            (int8, dense_int8(target, int8, parallel=True)),
        ):
            assert any("parallel" in step.arguments for step in s.trace)
            check(program, s, target, pool)
