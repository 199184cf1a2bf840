"""Convolutions as products of matrices, one of which is gathered from the input, as GPUs compute them.

Nothing is stored as a matrix: a schedule gathers tile by tile. Indices outside the input read as zero, so that pads and
what is beyond the last channel or image need no case of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Buffer, Const, Expr
from ...ir.stmt import Program
from ...ir.types import DType
from ..blocks import Window
from ..epilogue import Epilogue
from .common import parameters_of
from .convolution import Convolution
from .gathered_product import Depth, GatheredProduct, Place


def is_pointwise(window: Window) -> bool:
    """Whether every output is computed from one position of the input, its own."""
    return window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)


def conv2d_depth(channels: int, window: Window, block: int) -> Depth:
    """The order of the sum of `gemm_conv2d` over a group's channels; without taps there is no need of blocks."""
    return Depth(channels=channels, taps=window.kernel, block=1 if window.kernel == (1, 1) else block)


def gemm_conv2d(
    shape: Convolution, *, block: int = 1, epilogue: Epilogue | None = None, name: str = "conv2d"
) -> Program:
    """Y = epilogue(sum over the window and the group's channels of W * X) in float32; X reads 0 outside.

    The product is W[g, k, i] * X[g, k, j] for filter i, k of `conv2d_depth` and j = (n * OH + y) * OW + x; stages as of
    `GatheredProduct.stages`, matrices are groups. Parameters, with C and M a group's channels and filters:
    X [batch, groups, C, height * width] where `is_pointwise` and [batch, groups, C, height, width] elsewhere,
    W [groups, K, M] without the first dimension for one group (`Depth.pack` makes it of ONNX's), B [groups, M] with a
    bias, R like Y with an operand, Y [batch, groups, M, OH * OW].
    ValueError if the window does not fit.
    """
    epilogue = epilogue or Epilogue()
    batch, groups, channels, filters = shape.batch, shape.groups, shape.group_channels, shape.group_filters
    window, (oh, ow) = shape.window, shape.outputs
    (sy, sx), (dy, dx), (top, left, _, _) = window.strides, window.dilations, window.pads
    pointwise = is_pointwise(window)
    depth = conv2d_depth(channels, window, block)

    def source(matrix: Sequence[Expr], k: Expr, j: Expr) -> Place:
        channel, kh, kw = depth.place(k)
        image, position = j // (oh * ow), j % (oh * ow)
        if pointwise:
            return image, *matrix, channel, position
        row, column = position // ow, position % ow
        return image, *matrix, channel, row * sy + kh * dy - top, column * sx + kw * dx - left

    def target(matrix: Sequence[Expr], i: Expr, j: Expr) -> Place:
        if batch == 1:
            return Const(0), *matrix, i, j
        return j // (oh * ow), *matrix, i, j % (oh * ow)

    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32)

    plane = (shape.height * shape.width,) if pointwise else (shape.height, shape.width)
    x_in = buffer("X", batch, groups, channels, *plane)
    weight = buffer("W", *((groups,) if groups > 1 else ()), depth.size, filters)
    y_out = buffer("Y", batch, groups, filters, oh * ow)
    bias = buffer("B", groups, filters) if epilogue.bias else None
    operand = buffer("R", *y_out.shape) if epilogue.operand else None
    product = GatheredProduct(
        matrices=(groups,),
        rows=filters,
        depth=depth.size,
        columns=batch * oh * ow,
        source=source,
        target=target,
        bias=lambda matrix, i: (*matrix, i),
        # A box of one channel or position has no dimension to cut tiles of.
        plain=pointwise and batch == 1 and channels > 1 and oh * ow > 1,
    )
    body = product.stages(x_in, weight, bias, operand, y_out, epilogue)
    return Program(name=name, parameters=parameters_of(x_in, weight, bias, operand, y_out), body=body)
