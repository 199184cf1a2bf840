"""Transposed convolutions as products of matrices gathered from the input, without products by inserted zeros.

Outputs that leave the same rest modulo the strides (`conv_transpose.phases`) use the same taps and are a convolution by
themselves. Those with as many taps and outputs are the matrices of one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Load, Var
from ...ir.stmt import Assign, Program, Stmt, nest, seq
from ...ir.types import DType
from ..blocks import Pair, Window
from ..epilogue import Epilogue
from .common import parameters_of
from .conv_transpose import Phase, phases, transposed_outputs
from .convolution import Convolution
from .gathered_product import Depth, GatheredProduct, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGroup:
    """Phases of an axis that follow one another, with as many taps and outputs each.

    The base of the m-th is that of the first one plus (m + `offset`) // `stride`.
    """

    members: tuple[Phase, ...]
    offset: int
    stride: int

    @property
    def first(self) -> Phase:
        """The one with the least rest."""
        return self.members[0]

    def base(self, m: Expr) -> Expr:
        """`Phase.base` of the m-th."""
        return (m + self.offset) // self.stride + self.first.base


def phase_groups(axis: Sequence[Phase], stride: int) -> tuple[PhaseGroup, ...]:
    """The phases of an axis, in the order of their rests, in groups as long as possible."""
    groups: list[PhaseGroup] = []
    for phase in axis:
        joined = _group((*groups[-1].members, phase), stride) if groups else None
        if joined is not None:
            groups[-1] = joined
        else:
            groups.append(PhaseGroup(members=(phase,), offset=0, stride=stride))
    return tuple(groups)


def _group(members: tuple[Phase, ...], stride: int) -> PhaseGroup | None:
    """These phases as a group; None if they are none."""
    first = members[0]
    if any((p.taps, p.outputs) != (first.taps, first.outputs) for p in members):
        return None
    for offset in range(stride):
        if all(p.base - first.base == (m + offset) // stride for m, p in enumerate(members)):
            return PhaseGroup(members=members, offset=offset, stride=stride)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProduct:
    """Phases whose sums are one product: a group of rows' with a group of columns'. Its names end with `tag`.

    `depth` is None where there are no taps: nothing is summed.
    """

    rows: PhaseGroup
    columns: PhaseGroup
    depth: Depth | None
    tag: str

    @property
    def outputs(self) -> Pair:
        """Rows and columns of a phase."""
        return self.rows.first.outputs, self.columns.first.outputs

    @property
    def matrices(self) -> Pair:
        """Phases of rows and of columns."""
        return len(self.rows.members), len(self.columns.members)

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Of weights [groups, filters, channels, KH, KW] those used, [groups, rows, columns, depth, filters].

        Without the dimensions of size 1 among the first three; ValueError without taps.
        """
        if self.depth is None:
            raise ValueError(f"phases{self.tag} have no taps")
        chosen = [
            [
                self.depth.pack(weights[..., row.first :: row.step, column.first :: column.step])
                for column in self.columns.members
            ]
            for row in self.rows.members
        ]
        matrices = np.moveaxis(np.array(chosen), 2, 0)
        batch = [size for size in matrices.shape[:3] if size > 1]
        return matrices.reshape(*batch, *matrices.shape[3:])


def phase_products(
    shape: Convolution, *, output_padding: Pair = (0, 0), block: int = 1
) -> tuple[PhaseProduct, ...]:
    """What a transposed convolution consists of; ValueError where it has no outputs."""
    window = shape.window
    outputs = transposed_outputs(window, shape.height, shape.width, output_padding)
    rows, columns = (
        phase_groups(phases(size, kernel, stride, dilation, before), stride)
        for size, kernel, stride, dilation, before in zip(
            outputs, window.kernel, window.strides, window.dilations, window.pads[:2], strict=True
        )
    )
    products: list[PhaseProduct] = []
    for row in rows:
        for column in columns:
            taps = (row.first.taps, column.first.taps)
            depth = Depth(channels=shape.group_channels, taps=taps, block=1 if taps == (1, 1) else block)
            tag = f"_{row.first.rest}_{column.first.rest}" if products else ""
            products.append(
                PhaseProduct(rows=row, columns=column, depth=depth if all(taps) else None, tag=tag)
            )
    return tuple(products)


def gemm_conv_transpose(
    shape: Convolution,
    *,
    output_padding: Pair = (0, 0),
    block: int = 1,
    epilogue: Epilogue | None = None,
    name: str = "conv_transpose",
) -> Program:
    """Y = epilogue(transposed convolution of X with W) in float32, as ONNX's ConvTranspose.

    Parameters, with C and M a group's channels and filters: X [batch, groups, C, height, width], for every one of
    `phase_products` with taps W{tag} as its `pack` makes it of ONNX's weights with the channels and filters of a group
    exchanged, B [groups, M] with a bias, R like Y with an operand, Y [batch, groups, M, OH, OW] with OH, OW =
    `transposed_outputs`. Stages as of `GatheredProduct.stages`, matrices are (groups, phases of rows, of columns);
    without taps loops b0{tag}, b1{tag}, b2{tag}, i{tag}, j{tag} around "post{tag}".
    ValueError where nothing is left between the pads.
    """
    epilogue = epilogue or Epilogue()
    batch, groups, channels, filters = shape.batch, shape.groups, shape.group_channels, shape.group_filters
    window = shape.window
    products = phase_products(shape, output_padding=output_padding, block=block)

    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32)

    x_in = buffer("X", batch, groups, channels, shape.height, shape.width)
    outputs = transposed_outputs(window, shape.height, shape.width, output_padding)
    y_out = buffer("Y", batch, groups, filters, *outputs)
    bias = buffer("B", groups, filters) if epilogue.bias else None
    operand = buffer("R", *y_out.shape) if epilogue.operand else None
    weights: list[Buffer] = []
    stages: list[Stmt] = []
    for part in products:
        matrices = (groups, *part.matrices)
        if part.depth is None:
            stages.append(_without_taps(part, matrices, window, batch, bias, operand, y_out, epilogue))
            continue
        batched = [size for size in matrices if size > 1]
        weights.append(buffer(f"W{part.tag}", *batched, part.depth.size, filters))
        product = GatheredProduct(
            matrices=matrices,
            rows=filters,
            depth=part.depth.size,
            columns=batch * part.outputs[0] * part.outputs[1],
            source=_source(part, part.depth),
            target=_target(part, window),
            bias=lambda matrix, i: (matrix[0], i),
            tag=part.tag,
        )
        stages.append(product.stages(x_in, weights[-1], bias, operand, y_out, epilogue))
    parameters = parameters_of(x_in, *weights, bias, operand, y_out)
    return Program(name=name, parameters=parameters, body=seq(*stages))


def _position(part: PhaseProduct, j: Expr) -> tuple[Expr, Expr, Expr]:
    """Image, row and column of a phase of output j."""
    rows, columns = part.outputs
    return j // (rows * columns), j % (rows * columns) // columns, j % columns


def _source(part: PhaseProduct, depth: Depth):
    def source(matrix: Sequence[Expr], k: Expr, j: Expr) -> Place:
        g, p, q = matrix
        image, row, column = _position(part, j)
        channel, kh, kw = depth.place(k)
        row = row + part.rows.base(p) - kh * part.rows.first.back
        column = column + part.columns.base(q) - kw * part.columns.first.back
        return image, g, channel, row, column

    return source


def _target(part: PhaseProduct, window: Window):
    def target(matrix: Sequence[Expr], i: Expr, j: Expr) -> Place:
        g, p, q = matrix
        image, row, column = _position(part, j)
        row = row * window.strides[0] + p + part.rows.first.rest
        return image, g, i, row, column * window.strides[1] + q + part.columns.first.rest

    return target


def _without_taps(
    part: PhaseProduct,
    matrices: tuple[int, int, int],
    window: Window,
    batch: int,
    bias: Buffer | None,
    operand: Buffer | None,
    y_out: Buffer,
    epilogue: Epilogue,
) -> Stmt:
    """Outputs that no tap of the window reaches."""
    g, p, q, i, j = (Var(f"{name}{part.tag}") for name in ("b0", "b1", "b2", "i", "j"))
    at = _target(part, window)((g, p, q), i, j)
    value = epilogue.value(
        Const(0.0, DType.FLOAT32),
        None if bias is None else bias[g, i],
        None if operand is None else Load(operand, at),
    )
    post = Assign(name=f"post{part.tag}", buffer=y_out, indices=at, value=value)
    columns = batch * part.outputs[0] * part.outputs[1]
    return nest([*zip((g, p, q), matrices, strict=True), (i, y_out.shape[2]), (j, columns)], post)
