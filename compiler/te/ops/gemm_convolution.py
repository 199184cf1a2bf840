"""Convolutions for GPUs as matrix products whose right-hand matrix is gathered from the input (implicit GEMM).

The gathered matrix is never stored: a schedule gathers tile by tile. Indices outside the input read as zero, so that
pads, and channels or images beyond the last one, need no special case. A convolution is one product. In a transposed
convolution, phases (`Convolution.axes`) with equal numbers of taps and outputs are the matrices of one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var
from ...ir.stmt import Assign, Program, Stmt, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Pair, Window
from .convolution import Convolution, Phase
from .gathered_product import Depth, GatheredProduct, Indices
from .sums import Epilogue


def is_pointwise(window: Window) -> bool:
    """Whether each output reads only the input at its own row and column: a 1x1 kernel, stride 1, no pads."""
    return window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGroup:
    """Consecutive phases along one axis that have equal numbers of taps and outputs, so that one product computes them.
    A phase is a set of outputs that use the same kernel taps.

    The base of phase m of the group (input position of the first tap of its first output) is `first.base` + (m +
    `offset`) // `stride`.
    """

    members: tuple[Phase, ...]
    offset: int
    stride: int

    @property
    def first(self) -> Phase:
        """The group's phase with the least `rest` (position of its first output)."""
        return self.members[0]

    def base(self, m: Expr) -> Expr:
        """`Phase.base` of the group's phase number m: the input position of the first tap of its first output."""
        return (m + self.offset) // self.stride + self.first.base


def _groups(axis: Sequence[Phase]) -> tuple[PhaseGroup, ...]:
    """Splits the phases of an axis, in the order of their first outputs (`rest`), into groups as long as possible."""
    groups: list[PhaseGroup] = []
    for phase in axis:
        joined = _group((*groups[-1].members, phase)) if groups else None
        if joined is not None:
            groups[-1] = joined
        else:
            groups.append(PhaseGroup(members=(phase,), offset=0, stride=phase.every))
    return tuple(groups)


def _group(members: tuple[Phase, ...]) -> PhaseGroup | None:
    """The phases as one group. None unless they have equal numbers of taps and outputs, and their bases (input position
    of the first tap of a phase's first output) are as in `PhaseGroup`.
    """
    first = members[0]
    if any((p.taps, p.outputs) != (first.taps, first.outputs) for p in members):
        return None
    for offset in range(first.every):
        if all(p.base - first.base == (m + offset) // first.every for m, p in enumerate(members)):
            return PhaseGroup(members=members, offset=offset, stride=first.every)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProduct:
    """One matrix product of a transposed convolution, which computes several of its phases. A phase consists of all
    outputs that use the same taps (weights) of the kernel.

    The product computes the phases whose row phase is in `rows` and whose column phase is in `columns`. `depth`
    describes the dimension summed over; None if these phases have no taps, so that their sums are zero. `tag`: suffix
    of the names of the product's loops.
    """

    rows: PhaseGroup
    columns: PhaseGroup
    depth: Depth | None
    tag: str

    @property
    def outputs(self) -> Pair:
        """Rows and columns of the outputs of one phase."""
        return self.rows.first.outputs, self.columns.first.outputs

    @property
    def matrices(self) -> Pair:
        """Number of phases along rows and along columns. A phase is a set of outputs of a transposed convolution that
        use the same kernel taps; each pair of a row phase and a column phase has a weight matrix.
        """
        return len(self.rows.members), len(self.columns.members)

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Selects this product's weights from all `weights` [groups, filters, channels, KH, KW]. A phase (the outputs
        of a transposed convolution that use the same kernel taps) has its own weight matrix. Returns an array [groups,
        row phases, column phases, depth, filters], in which the first three dimensions are left out if their size is 1.

        Raises ValueError if the phases have no taps.
        """
        if self.depth is None:
            raise ValueError(f"phases{self.tag} have no taps, so no weights to pack")
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


def phase_products(shape: Convolution, block: int = 1) -> tuple[PhaseProduct, ...]:
    """The matrix products that together compute a convolution: one for each group of output rows and of output columns
    that use the same kernel taps. Raises ValueError if the convolution has no outputs.

    A sum runs over blocks of `block` channels, then over the taps, then over the channels of a block (`Depth`). A
    product with a single tap needs no blocks.
    """
    rows, columns = map(_groups, shape.axes)
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


def gemm_convolution(
    shape: Convolution,
    *,
    block: int = 1,
    epilogue: Epilogue | None = None,
    dtype: DType = DType.FLOAT32,
) -> Program:
    """Y = epilogue(sum over the window and the group's channels of W * X) in float32; outside X are zeros. `dtype`: the
    type of X and W, a float of 16 or 32 bits. `block`: channels of a block in the order of a sum (`phase_products`).

    Parameters, in this order, with C and M the channels and filters of a group:
    - X [batch, groups, C, height, width], or [batch, groups, C, height * width] if pointwise and not transposed;
    - W{tag} for each of `phase_products` with taps: the result of `PhaseProduct.pack` for [groups, M, C, KH, KW];
    - B [groups, M] if the epilogue has a bias; R, of Y's shape, if the epilogue has an operand;
    - Y [batch, groups, M, OH * OW], or [batch, groups, M, OH, OW] if transposed.

    Each product has the stages of `GatheredProduct.stages`, with matrices (groups, row phases, column phases) and
    columns j = (n * OH + y) * OW + x of a phase's outputs. A product without taps is a nest of loops b0{tag}, b1{tag},
    b2{tag}, i{tag}, j{tag} around the statement "post{tag}". Raises ValueError if the window does not fit, or if the
    pads of a transposed convolution leave no outputs.
    """
    batch, groups, channels, filters = shape.batch, shape.groups, shape.group_channels, shape.group_filters
    pointwise = not shape.transposed and is_pointwise(shape.window)
    oh, ow = shape.outputs

    def buffer(name: str, *sizes: int, dtype: DType = DType.FLOAT32) -> Buffer:
        return Buffer(name=name, shape=sizes, dtype=dtype)

    plane = (shape.height * shape.width,) if pointwise else (shape.height, shape.width)
    x_in = buffer("X", batch, groups, channels, *plane, dtype=dtype)
    y_out = buffer("Y", batch, groups, filters, *((oh, ow) if shape.transposed else (oh * ow,)))
    operands = (epilogue or Epilogue()).buffers((groups, filters), y_out)
    weights: list[Buffer] = []
    stages: list[Stmt] = []
    for part in phase_products(shape, block):
        matrices = (groups, *part.matrices)
        columns = batch * part.outputs[0] * part.outputs[1]
        target = _phase_target(part) if shape.transposed else _target(shape)
        if part.depth is None:
            g, p, q, i, j = (Var(f"{name}{part.tag}") for name in ("b0", "b1", "b2", "i", "j"))
            at = target((g, p, q), i, j)
            value = operands.value(Const(0.0, DType.FLOAT32), (g, i), at)
            post = Assign.to(f"post{part.tag}", y_out[at], value)
            stages.append(nest([*zip((g, p, q), matrices, strict=True), (i, filters), (j, columns)], post))
            continue
        several = [size for size in matrices if size > 1]
        weights.append(buffer(f"W{part.tag}", *several, part.depth.size, filters, dtype=dtype))
        product = GatheredProduct(
            matrices=matrices,
            rows=filters,
            depth=part.depth.size,
            columns=columns,
            source=_phase_source(part, part.depth) if shape.transposed else _source(shape, part.depth),
            target=target,
            bias=lambda matrix, i: (matrix[0], i),
            # A box of one channel or one position has no dimension to tile.
            plain=pointwise and batch == 1 and channels > 1 and oh * ow > 1,
            tag=part.tag,
        )
        stages.append(product.stages(x_in, weights[-1], y_out, operands))
    parameters = parameters_of(x_in, *weights, operands.bias, operands.operand, y_out)
    name = "conv_transpose" if shape.transposed else "conv2d"
    return Program(name=name, parameters=parameters, body=seq(*stages))


_Source = Callable[[Sequence[Expr], Expr, Expr], Indices]


def _source(shape: Convolution, depth: Depth) -> _Source:
    """Returns the function from (indices of a matrix, step k of the sum, column j of the result) to the indices of X at
    which the product's factor is read. X of a pointwise convolution has rows and columns merged into one dimension.
    """
    (sy, sx), (dy, dx), (top, left, _, _) = shape.window.strides, shape.window.dilations, shape.window.pads
    oh, ow = shape.outputs

    def source(matrix: Sequence[Expr], k: Expr, j: Expr) -> Indices:
        channel, kh, kw = depth.place(k)
        image, position = j // (oh * ow), j % (oh * ow)
        if is_pointwise(shape.window):
            return image, matrix[0], channel, position
        row, column = position // ow, position % ow
        return image, matrix[0], channel, row * sy + kh * dy - top, column * sx + kw * dx - left

    return source


def _target(shape: Convolution) -> _Source:
    """Returns the function from (indices of a matrix, row i and column j of the product) to the indices of the result
    in Y [batch, groups, filters, OH*OW].
    """
    oh, ow = shape.outputs

    def target(matrix: Sequence[Expr], i: Expr, j: Expr) -> Indices:
        if shape.batch == 1:
            return Const(0), matrix[0], i, j
        return j // (oh * ow), matrix[0], i, j % (oh * ow)

    return target


def _phase_source(part: PhaseProduct, depth: Depth) -> _Source:
    """Returns the function from (indices of a matrix, step k of the sum, column j of the result) to the indices of X at
    which the product's factor is read. `part`: the product of some phases of a transposed convolution.
    """

    def source(matrix: Sequence[Expr], k: Expr, j: Expr) -> Indices:
        g, p, q = matrix
        image, row, column = _position(part, j)
        channel, kh, kw = depth.place(k)
        row = row + part.rows.base(p) - kh * -part.rows.first.reach
        column = column + part.columns.base(q) - kw * -part.columns.first.reach
        return image, g, channel, row, column

    return source


def _phase_target(part: PhaseProduct) -> _Source:
    """Returns the function from (indices of a matrix, row i and column j of the product) to the indices of the result
    in Y [batch, groups, filters, OH, OW]. `part`: the product of some phases of a transposed convolution.
    """

    def target(matrix: Sequence[Expr], i: Expr, j: Expr) -> Indices:
        g, p, q = matrix
        image, row, column = _position(part, j)
        rows, columns = part.rows.first, part.columns.first
        return image, g, i, row * rows.every + p + rows.rest, column * columns.every + q + columns.rest

    return target


def _position(part: PhaseProduct, j: Expr) -> tuple[Expr, Expr, Expr]:
    """Image, row and column of output number `j` of a matrix product. Row and column count only the outputs of one
    phase, a set of outputs that use the same kernel taps.
    """
    rows, columns = part.outputs
    return j // (rows * columns), j % (rows * columns) // columns, j % columns
