"""Operators of the accelerator without weights: pools and element-wise combinations.

Activations go directly to the store pipeline, without the array of multipliers.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const
from ...ir.stmt import Alloc, Copy, Program, parameters_of, region, seq, whole
from ...ir.types import DType
from ..blocks import Blocks, Pair, Window, ceil_div
from ..post import PoolOperator, Post
from .common import WHOLE, Outputs, Part, Placement, activation

Sizes = tuple[int, int, int, int]
"""Batch, channels, height and width of the input."""


def max_pool(
    *,
    blocks: Blocks,
    sizes: Sizes,
    window: Window,
    post: Post,
    placement: Placement = WHOLE,
    name: str = "max_pool",
) -> Program:
    """Y = post(bias + maximum over the window of X); positions outside X read as -128 and so never win.

    The parameters are as for `conv2d`: X int8[NB, CB, H, W, B, co]; P int32[CB, 2, co]; R, if `post` has an operand; Y
    int8[NB, CB, OH, OW, B, co]. Statement "pad" converts X to int32 and pads it, into the buffer `acc`. `placement` is
    as for `conv2d`, but X is never resident. With `placement.apart` above 1, X, R and Y have a further dimension of
    this size behind the columns, and only the first vector of each position is used. Raises ValueError for dilations, a
    window that does not fit, or a resident X.
    """
    return _widened(name, blocks, sizes, window, pad_value=-128, post=post, pool="max", placement=placement)


def average_pool(
    *,
    blocks: Blocks,
    sizes: Sizes,
    window: Window,
    pad_value: int,
    post: Post,
    placement: Placement = WHOLE,
    name: str = "average_pool",
) -> Program:
    """An average pool: Y = post(bias + sum over the window of X), where positions outside X read as `pad_value`.
    Parameters and loops are those of `max_pool`.

    The parameters P turn the sum into an average: the bias is -(window size) * zero point, and the scale includes the
    divisor. If windows at the border have other divisors, a separate program computes each area of equal divisors
    (`placement.area`).
    """
    return _widened(
        name, blocks, sizes, window, pad_value=pad_value, post=post, pool="add", placement=placement
    )


def elementwise(
    *,
    blocks: Blocks,
    sizes: Sizes,
    post: Post,
    strides: Pair = (1, 1),
    placement: Placement = WHOLE,
    name: str = "elementwise",
) -> Program:
    """An element-wise operator: Y = post(bias + X). `post` combines X with a second tensor R (adds or multiplies), or
    replaces X by entries of a table T int8[256]. The other parameters, and the intermediate, are those of `max_pool`.

    With bias 0, scale 1 and zero point 0 requantization does not change X. `strides` selects every n-th row and column
    of X, `placement.area` a part of the selected positions; all other fields of `placement` are as for `max_pool`.
    """
    window = Window(kernel=(1, 1), strides=strides)
    return _widened(name, blocks, sizes, window, pad_value=0, post=post, pool="max", placement=placement)


def _widened(
    name: str,
    blocks: Blocks,
    sizes: Sizes,
    window: Window,
    *,
    pad_value: int,
    post: Post,
    pool: PoolOperator,
    placement: Placement,
) -> Program:
    """The program of a pool or of an element-wise operator: Y = post(bias + the sum or maximum over each window of X),
    where `pool` chooses sum or maximum. X is first converted to int32 in buffer `acc`; positions outside X have
    `pad_value`. The other parameters are those of `max_pool`.
    """
    batch, channels, height, width = sizes
    if window.dilations != (1, 1):
        raise ValueError("the store unit does not support windows with dilations")
    if placement.resident:
        raise ValueError("accumulators cannot be loaded from the chain memory (`placement.resident`)")
    apart, spread = placement.apart, placement.spread
    b_size, lanes = blocks.batch, blocks.block_out
    nb, cb = ceil_div(batch, b_size), ceil_div(channels, lanes)
    part = Part.of(window, height, width, placement.area)
    rows, columns = part.inputs
    start = part.start
    out_shape = window.outputs(height, width) if spread is None else spread.plane
    between = () if apart == 1 else (apart,)
    x_in = Buffer(name="X", shape=(nb, cb, height, width, *between, b_size, lanes), dtype=DType.INT8)
    acc = activation("acc", (nb, cb, rows, columns), (b_size, lanes), DType.INT32)
    pad = Copy(
        name="pad",
        destination=whole(acc),
        source=region(
            x_in,
            (0, nb),
            (0, cb),
            (start[0], rows),
            (start[1], columns),
            *((0, 1) for _ in between),
            (0, b_size),
            (0, lanes),
        ),
        pad=Const(pad_value, DType.INT8),
    )
    # Only one vector of each position is read; others of a block are between them.
    alone = Blocks(batch=b_size, block_in=lanes, block_out=lanes)
    outputs = Outputs.of(alone, (nb, cb, *out_shape), post, placement)
    finish = outputs.finish(acc, window=window, pool=pool)
    return Program(
        name=name,
        parameters=parameters_of(x_in, *outputs.buffers),
        body=Alloc(buffer=acc, body=seq(pad, finish)),
    )
