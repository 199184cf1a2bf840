"""The tensor expression of each operator, run by the interpreter, equals numpy on unblocked tensors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from campaign import representatives

from vdla.compiler.graph.special_weights import pack_taps_weight
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.blocks import Blocks, Window
from vdla.compiler.te.combination import Combination
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.common import Placement
from vdla.compiler.te.ops.conv2d import conv2d
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.depthwise import Filters, depthwise_conv2d
from vdla.compiler.te.ops.patch_conv2d import patch_conv2d
from vdla.compiler.te.ops.pointwise import reduced_windows
from vdla.compiler.te.post import Post
from vdla.compiler.te.taps import TapGroups
from vdla.isa import arithmetic
from vdla.isa.array_modes import TAPS
from vdla.isa.config import load_config

BLOCKS = [Blocks(batch=1, block_in=4, block_out=4), Blocks(batch=2, block_in=2, block_out=4)]
SQUARE = [Blocks(batch=1, block_in=4, block_out=4), Blocks(batch=2, block_in=2, block_out=2)]
LOWEST = -(2**31)


def block(tensor, batch, lanes):
    """The tensor (N, C, H, W) in the blocked layout [NB, CB, H, W, batch, lanes], filled with zeros."""
    n, c, h, w = tensor.shape
    nb, cb = -(-n // batch), -(-c // lanes)
    full = np.zeros((nb * batch, cb * lanes, h, w), tensor.dtype)
    full[:n, :c] = tensor
    return full.reshape(nb, batch, cb, lanes, h, w).transpose(0, 2, 4, 5, 1, 3)


def unblock(tensor, n, c):
    nb, cb, h, w, batch, lanes = tensor.shape
    return tensor.transpose(0, 4, 1, 5, 2, 3).reshape(nb * batch, cb * lanes, h, w)[:n, :c]


def block_weights(weight, ci, co):
    o, c, kh, kw = weight.shape
    ob, cb = -(-o // co), -(-c // ci)
    full = np.zeros((ob * co, cb * ci, kh, kw), np.int8)
    full[:o, :c] = weight
    return full.reshape(ob, co, cb, ci, kh, kw).transpose(0, 2, 4, 5, 1, 3)


def parameter_table(bias, scale, co):
    ob = -(-len(bias) // co)
    table = np.zeros((ob, 2, co), np.int32)
    full = np.zeros(ob * co, np.int32)
    full[: len(bias)] = bias
    table[:, 0] = full.reshape(ob, co)
    full[: len(bias)] = np.asarray(scale, np.float32).view(np.int32)
    table[:, 1] = full.reshape(ob, co)
    return table


def windows(data, window, pad_value, stride=None, pads=None):
    """The windows of a padded tensor, int64 [N, C, OH, OW, KH, KW]."""
    top, left, bottom, right = pads or window.pads
    data = np.pad(
        data.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=pad_value
    )
    (kh, kw), (dy, dx), (sy, sx) = window.kernel, window.dilations, stride or window.strides
    span = ((kh - 1) * dy + 1, (kw - 1) * dx + 1)
    view = np.lib.stride_tricks.sliding_window_view(data, span, axis=(2, 3))
    return view[:, :, ::sy, ::sx, ::dy, ::dx]


def finish(total, bias, scale, post, operand):
    """The results of the accelerator's store pipeline for int64 sums `total` [N, C, H, W]: `bias` and requantization
    by `scale`, both by channel, and `post`, which may combine the result with `operand`.
    """
    total = (total + bias[None, :, None, None]).astype(np.int32)
    q = arithmetic.requantize(total, scale[None, :, None, None], post.zero_point, post.low, post.high)
    c = post.combination
    if c is None:
        return q
    own, other = (q, c.ratio_self, c.zero_point_self), (operand, c.ratio_operand, c.zero_point_operand)
    (a, ratio_a, zero_a), (b, ratio_b, zero_b) = (other, own) if c.swap else (own, other)
    match c.kind:
        case "rescale":
            return arithmetic.rescale(q, c.zero_point_self, c.ratio_self, c.zero_point, c.low, c.high)
        case "add":
            constants = arithmetic.AddConstants(
                ratio_a=np.float32(ratio_a),
                ratio_b=np.float32(ratio_b),
                offset=np.float32(c.offset),
                unsigned=c.unsigned,
            )
            return arithmetic.combine_add(a, b, constants, c.low, c.high)
        case "multiply":
            return arithmetic.combine_multiply(
                a, b, (zero_a, zero_b), c.ratio_self, c.zero_point, c.unsigned, c.low, c.high
            )


ADD = Combination(
    kind="add", ratio_self=0.7, ratio_operand=1.3, offset=5.25, unsigned=True, swap=True, low=-100
)
MULTIPLY = Combination(
    kind="multiply", ratio_self=0.02, zero_point_self=3, zero_point_operand=-4, zero_point=7
)
RESCALE = Combination(kind="rescale", ratio_self=0.6, zero_point_self=-5, zero_point=2, low=2)
POSTS = {
    "requantize": Post(zero_point=-7, low=-7, high=120),
    "add": Post(zero_point=3, combination=ADD),
    "multiply": Post(combination=MULTIPLY),
    "rescale": Post(zero_point=-5, combination=RESCALE),
}


def run(program, arrays, n, c):
    verify(program)
    return unblock(interpret(program, arrays, functions=FUNCTIONS)["Y"], n, c)


def int8(rng, *shape):
    return rng.integers(-128, 128, shape, dtype=np.int8)


def post_data(rng, channels, scale):
    bias = rng.integers(-500, 500, channels, dtype=np.int32)
    return bias, (rng.random(channels) * scale + scale / 4).astype(np.float32)


CONVOLUTIONS = {
    "3x3": ((5, 6), Window(kernel=(3, 3), pads=(1, 1, 1, 1))),
    "rectangular, strided, asymmetric": (
        (7, 6),
        Window(kernel=(1, 3), strides=(2, 1), pads=(1, 2, 0, 1), dilations=(1, 2)),
    ),
    "pointwise": ((3, 4), Window(kernel=(1, 1), strides=(2, 2))),
}


@pytest.mark.parametrize(
    ("batch", "case", "name"),
    representatives(
        itertools.product((1, 2), CONVOLUTIONS, POSTS),
        0,
        # Each convolution with two kinds of post, each kind with several convolutions, in either batch.
        always=[
            (1 + (i + j // 2) % 2, case, name)
            for i, case in enumerate(CONVOLUTIONS)
            for j, name in enumerate(POSTS)
            if (i + j) % 2 == 0
        ],
    ),
)
def test_conv2d(batch, case, name):
    blocks, post = BLOCKS[batch - 1], POSTS[name]
    (height, width), window = CONVOLUTIONS[case]
    rng = np.random.default_rng(7)
    n, c, o = 3 if blocks.batch == 2 else 1, 5, 6
    data, weight = int8(rng, n, c, height, width), int8(rng, o, c, *window.kernel)
    bias, scale = post_data(rng, o, 1e-3)
    program = conv2d(
        blocks=blocks,
        convolution=Convolution(batch=n, channels=c, height=height, width=width, filters=o, window=window),
        pad_value=11,
        post=post,
    )
    total = np.einsum("nchwyx,ocyx->nohw", windows(data, window, 11), weight.astype(np.int64))
    operand = int8(rng, *total.shape)
    # Channels behind the end read the pad value in pads and zeros inside; their weights are zero.
    arrays = {
        "X": block(data, blocks.batch, blocks.block_in),
        "W": block_weights(weight, blocks.block_in, blocks.block_out),
        "P": parameter_table(bias, scale, blocks.block_out),
    }
    if post.has_operand:
        arrays["R"] = block(operand, blocks.batch, blocks.block_out)
    expected = finish(total, bias, scale, post, operand)
    assert len(np.unique(expected)) > 8
    np.testing.assert_array_equal(run(program, arrays, n, o), expected)


@pytest.mark.parametrize("blocks", BLOCKS, ids=["batch 1", "batch 2"])
@pytest.mark.parametrize(
    "window", [Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 0, 1)), Window(kernel=(2, 1))]
)
def test_patch_conv2d(blocks, window):
    rng = np.random.default_rng(8)
    n, c, o, height, width = 3 if blocks.batch == 2 else 1, 3, 6, 5, 6
    data, weight = int8(rng, n, c, height, width), int8(rng, o, c, *window.kernel)
    bias, scale = post_data(rng, o, 1e-3)
    program = patch_conv2d(
        blocks=blocks,
        convolution=Convolution(batch=n, channels=c, height=height, width=width, filters=o, window=window),
        pad_value=-9,
        post=POSTS["requantize"],
    )
    ci, co = blocks.block_in, blocks.block_out
    flat = weight.transpose(0, 2, 3, 1).reshape(o, -1)
    ob, kb = -(-o // co), -(-flat.shape[1] // ci)
    full = np.zeros((ob * co, kb * ci), np.int8)
    full[:o, : flat.shape[1]] = flat
    arrays = {
        "X": np.ascontiguousarray(data.transpose(0, 2, 3, 1)).reshape(n, height, width * c),
        "W": full.reshape(ob, co, kb, ci).transpose(0, 2, 1, 3),
        "P": parameter_table(bias, scale, co),
    }
    total = np.einsum("nchwyx,ocyx->nohw", windows(data, window, -9), weight.astype(np.int64))
    expected = finish(total, bias, scale, POSTS["requantize"], None)
    np.testing.assert_array_equal(run(program, arrays, n, o), expected)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("blocks", SQUARE, ids=["batch 1", "batch 2"])
def test_depthwise_conv2d(blocks, shared):
    rng = np.random.default_rng(9)
    lanes = blocks.block_out
    n, c, height, width = 2, 6, 6, 5
    window = Window(kernel=(3, 2), strides=(1, 2), pads=(1, 0, 1, 1))
    data, weight = int8(rng, n, c, height, width), int8(rng, c, 3, 2)
    if shared:
        weight[:] = 1
    bias, scale = post_data(rng, c, 1e-2)
    program = depthwise_conv2d(
        blocks=blocks,
        convolution=Convolution(
            batch=n, channels=c, height=height, width=width, filters=c, window=window, groups=c
        ),
        pad_value=4,
        post=POSTS["requantize"],
        filters=Filters(shared=shared),
    )
    cb, tiles = -(-c // lanes), -(-6 // lanes)
    taps = np.zeros((cb * lanes, tiles * lanes), np.int8)
    taps[:c, :6] = weight.reshape(c, 6)
    rows = taps.reshape(cb, lanes, tiles, lanes).transpose(0, 2, 3, 1)
    arrays = {
        "X": block(data, blocks.batch, lanes),
        "W": np.ones_like(rows[:1, :1]) if shared else rows,
        "P": parameter_table(bias, scale, lanes),
    }
    total = np.einsum("nchwyx,cyx->nchw", windows(data, window, 4), weight.astype(np.int64))
    expected = finish(total, bias, scale, POSTS["requantize"], None)
    np.testing.assert_array_equal(run(program, arrays, n, c), expected)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "window",
    [
        Window(kernel=(3, 3), strides=(1, 2), pads=(1, 0, 1, 1)),
        Window(kernel=(2, 5), strides=(2, 1), pads=(0, 2, 0, 0)),
        Window(kernel=(3, 3), dilations=(2, 3), pads=(2, 3, 0, 1)),
        Window(kernel=(1, 10), strides=(1, 3), pads=(0, 5, 1, 4)),
    ],
)
def test_depthwise_conv2d_by_groups_of_columns(window, shared):
    rng = np.random.default_rng(19)
    n, c, height, width = 2, 6, 7, 6
    blocks = Blocks(batch=2, block_in=4, block_out=4)
    taps = TapGroups.of(window)
    assert taps is not None and taps.columns - taps.span < TAPS
    data, weight = int8(rng, n, c, height, width), int8(rng, c, *window.kernel)
    if shared:
        weight[:] = 1
    bias, scale = post_data(rng, c, 1e-2)
    convolution = Convolution(
        batch=n, channels=c, height=height, width=width, filters=c, window=window, groups=c
    )
    program = depthwise_conv2d(
        blocks=blocks,
        convolution=convolution,
        pad_value=4,
        post=POSTS["requantize"],
        filters=Filters(shared=shared, taps=taps),
    )
    tiny = load_config("tiny")
    dilation = np.array([window.dilations[1]])
    arrays = {
        "X": block(data, 2, 4),
        "W": pack_taps_weight(tiny, weight[:4, :1] if shared else weight, dilation),
        "P": parameter_table(bias, scale, 4),
    }
    total = np.einsum("nchwyx,cyx->nchw", windows(data, window, 4), weight.astype(np.int64))
    expected = finish(total, bias, scale, POSTS["requantize"], None)
    np.testing.assert_array_equal(run(program, arrays, n, c), expected)


def test_columns_that_lie_far_apart_make_no_groups():
    for kernel, dilation in (((3, 1), 1), ((3, 3), 4), ((5, 2), 5)):
        assert TapGroups.of(Window(kernel=kernel, dilations=(1, dilation))) is None


@pytest.mark.parametrize("pool", ["max", "add"])
@pytest.mark.parametrize("blocks", SQUARE, ids=["batch 1", "batch 2"])
def test_pools(blocks, pool):
    rng = np.random.default_rng(10)
    n, c, height, width = 2, 5, 6, 7
    window = Window(kernel=(3, 2), strides=(2, 1), pads=(1, 1, 0, 0))
    data = int8(rng, n, c, height, width)
    bias, scale = np.zeros(c, np.int32), np.full(c, 0.9, np.float32)
    post = POSTS["rescale"]
    sizes = (n, c, height, width)
    pad = -128 if pool == "max" else -3
    program = reduced_windows(blocks=blocks, sizes=sizes, window=window, pool=pool, pad_value=pad, post=post)
    total = windows(data, window, pad)
    total = total.max(axis=(4, 5)) if pool == "max" else total.sum(axis=(4, 5))
    arrays = {
        "X": block(data, blocks.batch, blocks.block_in),
        "P": parameter_table(bias, scale, blocks.block_out),
    }
    expected = finish(total, bias, scale, post, None)
    np.testing.assert_array_equal(run(program, arrays, n, c), expected)


@pytest.mark.parametrize("kind", ["add", "multiply", "rescale"])
def test_elementwise(kind):
    rng = np.random.default_rng(11)
    blocks, n, c, height, width = SQUARE[1], 3, 3, 3, 2
    data, operand = int8(rng, n, c, height, width), int8(rng, n, c, height, width)
    post = Post(combination=POSTS[kind].combination)
    program = reduced_windows(
        blocks=blocks, sizes=(n, c, height, width), window=Window(kernel=(1, 1)), post=post
    )
    bias, scale = np.zeros(c, np.int32), np.ones(c, np.float32)
    arrays = {"X": block(data, 2, 2), "P": parameter_table(bias, scale, 2)}
    if post.has_operand:
        arrays["R"] = block(operand, 2, 2)
    expected = finish(data.astype(np.int64), bias, scale, post, operand)
    np.testing.assert_array_equal(run(program, arrays, n, c), expected)


def test_a_window_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a window of 5 positions does not fit into the 4 padded"):
        reduced_windows(
            blocks=SQUARE[0],
            sizes=(1, 4, 4, 9),
            window=Window(kernel=(5, 5)),
            post=Post(),
        )


def test_placements_that_are_refused():
    with pytest.raises(ValueError, match="a part of an output, cannot have `margins`"):
        Placement(area=(0, 0, 1, 1), margins=(0, 0, 0, 0))
    with pytest.raises(ValueError, match="cannot be loaded from the chain memory"):
        reduced_windows(
            blocks=SQUARE[0],
            sizes=(1, 4, 4, 4),
            window=Window(kernel=(1, 1)),
            post=Post(table=True),
            placement=Placement(resident=True),
        )
