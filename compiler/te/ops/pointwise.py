"""Operators of the accelerator without weights: pools and element-wise combinations.

Activations go directly to the store pipeline, without the array of multipliers.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const
from ...ir.stmt import Alloc, Copy, Program, parameters_of, region, seq, whole
from ...ir.types import DType
from ..blocks import Blocks, Window, ceil_div
from ..post import PoolOperator, Post
from .common import WHOLE, Outputs, Part, Placement, activation

Sizes = tuple[int, int, int, int]
"""Batch, channels, height and width of the input."""


def reduced_windows(
    *,
    blocks: Blocks,
    sizes: Sizes,
    window: Window,
    pool: PoolOperator = "max",
    pad_value: int = 0,
    post: Post,
    placement: Placement = WHOLE,
    name: str = "reduced_windows",
) -> Program:
    """Y = post(bias + the maximum or sum, by `pool`, over each window of X); positions outside X read as `pad_value`.

    The parameters are as for `conv2d`: X int8[NB, CB, H, W, B, co]; P int32[CB, 2, co]; R, if `post` has an operand; Y
    int8[NB, CB, OH, OW, B, co]. Statement "pad" converts X to int32 and pads it, into the buffer `acc`. `placement` is
    as for `conv2d`, but X is never resident. With `placement.apart` above 1, X, R and Y have a further dimension of
    this size behind the columns, and only the first vector of each position is used. Raises ValueError for dilations, a
    window that does not fit, or a resident X.

    A max-pool has `pad_value` -128, which never wins. For an average pool, P turns the sum into an average: the bias is
    -(window size) * zero point, and the scale includes the divisor; if windows at the border have other divisors, a
    separate program computes each area of equal divisors (`placement.area`). An element-wise operator has windows of
    one position, whose strides select every n-th row and column of X: `post` combines X with R, or replaces X by
    entries of a table T int8[256]. With bias 0, scale 1 and zero point 0 requantization does not change X.
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
