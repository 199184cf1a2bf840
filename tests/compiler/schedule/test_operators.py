"""Complete schedules for the accelerator, of every operator: after each step the program passes the verifier and
computes the same.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from campaign import representatives, some

from vdla.compiler.codegen.vdla import intrinsics, window_intrinsics
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.stmt import Copy, Intrinsic
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.te.blocks import Blocks, Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.conv2d import conv2d
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.depthwise import Filters, depthwise_conv2d
from vdla.compiler.te.ops.patch_conv2d import patch_conv2d
from vdla.compiler.te.ops.pointwise import reduced_windows
from vdla.compiler.te.post import Post
from vdla.isa.config import load_config

CONFIGS = {batch: replace(load_config("tiny"), name=f"batch {batch}", batch=batch) for batch in (1, 2)}
ADD = Post(zero_point=1, combination=Combination(kind="add", ratio_self=0.7, ratio_operand=1.1, offset=4.5))
CLAMP = Post(zero_point=-3, low=-3)


def tile(s, groups, rows, columns, lanes=("b", "j")):
    og, o = s.split("o", groups)
    ty, y = s.split("y", rows)
    tx, x = s.split("x", columns)
    s.reorder(og, "n", ty, tx, o, y, x, *lanes)
    return og, tx


def schedule_conv2d(s, config, post, tiles, chunk):
    og, tx = tile(s, *tiles)
    s.compute_at("conv", tx)
    s.set_scope("acc", "acc")
    icc, ic = s.split("conv.ic", chunk)
    inner = ("conv.kh", "conv.kw", "conv.b", "conv.j", "conv.k")
    s.reorder(icc, "conv.n", "conv.y", "conv.x", "conv.o", ic, *inner)
    s.compute_at("pad", icc)
    s.set_scope("padded", "inp")
    s.cache_read("W", icc, "wgt")
    s.cache_read("P", og, "par")
    gemm = intrinsics.gemm(config)
    s.tensorize("conv.b", gemm)
    finish = intrinsics.post(config, post)
    s.tensorize("b", finish, (("zero_point", post.zero_point),))
    s.virtual_thread(tx)
    s.virtual_thread(icc)
    return {"gemm": gemm, "post": finish}


def check(program, rng, build, poison=True):
    """Applies `build` to a schedule of the program, then replays its trace (through JSON) step by step; returns the
    scheduled program.

    Asserts that the program verifies after every step, and computes the same after the last step and after a third of
    the others (in campaigns after all). `poison`: whether the interpreter reports reads of undefined memory.
    """
    arrays = {
        p.name: rng.integers(-128, 128, p.shape, dtype=np.int8) for p in program.parameters if p.name != "Y"
    }
    blocks, _, lanes = next(p for p in program.parameters if p.name == "P").shape
    bias = rng.integers(-300, 300, (blocks, lanes), dtype=np.int32)
    scale = (rng.random((blocks, lanes)) * 2e-3 + 1e-3).astype(np.float32)
    if all(p.name != "W" for p in program.parameters):
        bias, scale = np.zeros_like(bias), np.full_like(scale, 0.5)
    arrays["P"] = np.stack([bias, scale.view(np.int32)], axis=1)
    verify(program)
    expected = interpret(program, arrays, functions=FUNCTIONS, poison=poison)["Y"]
    assert len(np.unique(expected)) > 8
    done = Schedule(program)
    declarations = build(done)
    trace = trace_from_lists(json.loads(json.dumps(trace_to_lists(done.trace))))
    assert trace == done.trace
    compared = {*some(range(1, len(trace)), len(trace) // 3), len(trace)}
    for steps in range(1, len(trace) + 1):
        again = replay(program, trace[:steps], declarations).program
        verify(again)
        # Annotations change nothing that the interpreter sees.
        if steps in compared and trace[steps - 1].primitive not in ("annotate", "set_scope"):
            got = interpret(again, arrays, functions=FUNCTIONS, poison=poison)["Y"]
            np.testing.assert_array_equal(got, expected, err_msg=str(trace[steps - 1]))
    assert structural_hash(again) == structural_hash(done.program)
    # Nothing but copies and hardware operations is left.
    leaves = [s for s in walk(done.program) if hasattr(s, "name") and not hasattr(s, "body")]
    assert all(isinstance(s, Copy | Intrinsic) for s in leaves)
    return done.program


CASES = {
    "in rests": (
        (5, 4),
        Window(kernel=(3, 2), pads=(1, 1, 1, 0)),
        (2, 2, 3),
        1,
        CLAMP,
    ),
    "strided": (
        (6, 5),
        Window(kernel=(3, 2), strides=(2, 1), pads=(0, 1, 1, 0)),
        (1, 2, 4),
        2,
        ADD,
    ),
    "dilated, whole": (
        (4, 5),
        Window(kernel=(2, 2), strides=(1, 2), pads=(2, 0, 0, 2), dilations=(2, 1)),
        (3, 9, 9),
        9,
        CLAMP,
    ),
}


@pytest.mark.parametrize(
    ("name", "batch"),
    representatives(itertools.product(CASES, CONFIGS), 0, always=[("in rests", 1), ("strided", 1)]),
)
def test_conv2d(name, batch):
    (height, width), window, tiles, chunk, post = CASES[name]
    config = CONFIGS[batch]
    program = conv2d(
        blocks=Blocks.of(config),
        convolution=Convolution(
            batch=2 * batch - 1, channels=6, height=height, width=width, filters=9, window=window
        ),
        pad_value=5,
        post=post,
    )
    check(program, np.random.default_rng(1), lambda s: schedule_conv2d(s, config, post, tiles, chunk))


@pytest.mark.parametrize(
    ("chunk", "batch"), representatives(itertools.product((1, 2, 9), CONFIGS), 0, always=[(9, 1)])
)
def test_patch_conv2d(chunk, batch):
    config = CONFIGS[batch]
    program = patch_conv2d(
        blocks=Blocks.of(config),
        convolution=Convolution(
            batch=2 * batch - 1,
            channels=3,
            height=6,
            width=5,
            filters=5,
            window=Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 0, 1)),
        ),
        pad_value=7,
        post=CLAMP,
    )

    def build(s):
        og, tx = tile(s, 1, 2, 3)
        s.compute_at("conv", tx)
        s.set_scope("acc", "acc")
        kbc, kb = s.split("conv.kb", chunk)
        s.reorder(kbc, "conv.n", "conv.y", "conv.x", "conv.o", kb, "conv.b", "conv.j", "conv.k")
        s.compute_at("patch", tx)
        s.cache_read("W", kbc, "wgt")
        s.cache_read("P", og, "par")
        gemm = intrinsics.gemm(config)
        finish = intrinsics.post(config, CLAMP)
        s.tensorize("conv.b", gemm)
        s.tensorize("b", finish)
        s.virtual_thread(tx)
        return {"gemm": gemm, "post": finish}

    check(program, np.random.default_rng(3), build, poison=batch == 1)


@pytest.mark.parametrize("batch", CONFIGS)
@pytest.mark.parametrize("shared", [False, True])
def test_depthwise_conv2d(batch, shared):
    config = CONFIGS[batch]
    program = depthwise_conv2d(
        blocks=Blocks.of(config),
        convolution=Convolution(
            batch=batch,
            channels=10,
            height=6,
            width=5,
            filters=10,
            window=Window(kernel=(3, 3), strides=(2, 1), pads=(1, 1, 0, 1)),
            groups=10,
        ),
        pad_value=-2,
        post=Post(zero_point=3),
        filters=Filters(shared=shared),
    )

    def build(s):
        og, tx = tile(s, 2, 2, 2)
        s.compute_at("conv", tx)
        s.set_scope("acc", "acc")
        s.reorder("conv.n", "conv.y", "conv.x", "conv.o", "conv.kh", "conv.kw", "conv.b", "conv.j")
        s.compute_at("pad", tx)
        s.set_scope("padded", "inp")
        s.cache_read("W", og, "wgt")
        s.cache_read("P", og, "par")
        operation, finish = window_intrinsics.depthwise(config), intrinsics.post(config, Post(zero_point=3))
        s.tensorize("conv.b", operation)
        s.tensorize("b", finish)
        return {"depthwise": operation, "post": finish}

    check(program, np.random.default_rng(4), build)


@pytest.mark.parametrize("batch", CONFIGS)
@pytest.mark.parametrize("kind", ["max", "add", "elementwise"])
def test_pointwise(batch, kind):
    config = CONFIGS[batch]
    window = Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1))
    sizes = {"blocks": Blocks.of(config), "sizes": (batch, 7, 5, 6)}
    post = ADD if kind == "elementwise" else CLAMP
    if kind == "max":
        program = reduced_windows(**sizes, window=window, pad_value=-128, post=post)
    elif kind == "add":
        program = reduced_windows(**sizes, window=window, pool="add", pad_value=3, post=post)
    else:
        program = reduced_windows(**sizes, window=Window(kernel=(1, 1)), post=post)

    def build(s):
        wide = kind != "elementwise"
        og, tx = tile(s, 1, 2, 4, lanes=() if wide else ("b", "j"))
        s.compute_at("pad", tx)
        s.set_scope("acc", "acc")
        s.cache_read("P", og, "par")
        finish = intrinsics.post(
            config, post, window.kernel if wide else (1, 1), "add" if kind == "add" else "max"
        )
        s.tensorize("window" if wide else "b", finish)
        return {"post": finish}

    check(program, np.random.default_rng(5), build)
