"""Convolutions by Winograd's method: fewer products than taps, for tiles of outputs computed together.

F(m x m, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016): a tile of m x m
outputs is A^T [(G g G^T) * (B^T d B)] A for taps g and a tile d of n x n inputs, n = m + 2. Summed over channels, the
element-wise products in the middle become n * n products of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from ...ir.expr import Buffer, Const, Expr, Var, minimum
from ...ir.stmt import Assign, Copy, Program, Stmt, allocated, nest, region, seq
from ...ir.types import DType
from ..blocks import ceil_div
from .convolution import WINOGRAD_TAPS, Convolution, suits_winograd, tile_counts
from .gathered_product import GatheredProduct
from .sums import Epilogue, Operands, program_of

Matrix = tuple[tuple[Fraction, ...], ...]
"""A matrix of exact numbers, row by row."""

OUTPUTS = (2, 4)
"""Sizes m of output tiles (m x m outputs) for which `POINTS` has interpolation points."""
_HALF = Fraction(1, 2)
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(1), Fraction(-1), _HALF, Fraction(-2)),
}
"""For each size m of output tiles (m x m outputs), the points at which polynomials are evaluated, besides infinity.

The points for m = 4 amplify rounding errors less than the points 0, 1, -1, 2, -2 would, see `codegen.cuda.tolerances`
(Barabasz, Anderson, Soodhalter, Gregg: "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep
Neural Networks", ACM TOMS 46, 2020). All points give coefficients in A and B that are exact in float32.
"""
ALIGNED = 4
"""Number of float32 values in the widest memory access; the number of tiles in a row is rounded up to a
multiple of it.
"""
PART = 1 << 15
"""Number of (filter, channel) pairs whose weights are transformed together: few enough for a processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transforms:
    """The matrices of Winograd's F(m, taps): `outputs` A^T [m, n], `weights` G [n, taps], `inputs` B^T [n, n]."""

    outputs: Matrix
    weights: Matrix
    inputs: Matrix


def toom_cook(m: int, taps: int, points: Sequence[Fraction]) -> Transforms:
    """The exact matrices of Winograd's F(m, taps) at m + taps - 2 different `points` and infinity.

    The transpose of Toom and Cook's product of polynomials of `taps` and m coefficients (Blahut, "Fast Algorithms for
    Signal Processing", chapter 5): G evaluates the polynomial of the taps at the points, A the polynomial of the
    outputs, and B^T has the coefficients of Lagrange's polynomials, whose denominators are in G. Raises ValueError for
    equal points or a wrong number of them.
    """
    if len(set(points)) != len(points) or len(points) != m + taps - 2:
        raise ValueError(
            f"Winograd's F({m}, {taps}) needs {m + taps - 2} different interpolation points, not {len(points)}"
        )
    weights: list[tuple[Fraction, ...]] = []
    inputs: list[tuple[Fraction, ...]] = []
    for at in points:
        others = [point for point in points if point != at]
        scale = Fraction(1)
        for other in others:
            scale *= at - other
        weights.append(tuple([at**k / scale for k in range(taps)]))
        inputs.append((*_with_roots(others), Fraction(0)))
    beyond = [Fraction(0)] * (taps - 1)
    weights.append((*beyond, Fraction(1)))
    inputs.append(tuple(_with_roots(points)))
    outputs = [(*[at**i for at in points], Fraction(int(i == m - 1))) for i in range(m)]
    return Transforms(outputs=tuple(outputs), weights=tuple(weights), inputs=tuple(inputs))


@cache
def transforms(m: int) -> Transforms:
    """The matrices of Winograd's F(m, 3). Raises ValueError unless m is one of `OUTPUTS`."""
    if m not in POINTS:
        raise ValueError(f"Winograd tiles have {' or '.join(map(str, OUTPUTS))} outputs, not {m}")
    return toom_cook(m, WINOGRAD_TAPS, POINTS[m])


def transformed_weights(weights: np.ndarray, m: int) -> np.ndarray:
    """Weights transformed for Winograd's F(m, 3): float32 [n * n, channels, filters] from [filters, channels, 3, 3],
    with n = m + 2. Each 3 x 3 kernel g becomes the n x n matrix G g G^T (G: `Transforms.weights`), rounded once from
    float64.
    """
    g = np.array([[float(value) for value in row] for row in transforms(m).weights])
    filters, channels = weights.shape[:2]
    n = len(g)
    result = np.empty((n * n, channels, filters), np.float32)
    step = max(1, PART // filters)
    for first in range(0, channels, step):
        part = weights[:, first : first + step].transpose(2, 3, 1, 0).astype(np.float64, order="C")
        rows = (g @ part.reshape(WINOGRAD_TAPS, -1)).reshape(n, WINOGRAD_TAPS, -1)
        result[:, first : first + step] = (g @ rows).reshape(n * n, -1, filters)
    return result


def winograd_conv2d(shape: Convolution, m: int, *, epilogue: Epilogue | None = None) -> Program:
    """Y = epilogue(convolution of X with 3 x 3 taps) in float32 by tiles of m x m outputs, which read n x n inputs.

    Parameters: X [batch, channels, height, width]; W [n * n, channels, filters] (`transformed_weights`); B [filters] if
    the epilogue adds a bias; R, shaped like Y, if it adds an operand; Y [batch, filters, OH, OW]. P is the number of
    tiles of all images, rounded up to a multiple of `ALIGNED`. The first stage, in loops input.c, input.p, transforms
    the inputs of a tile (copy "tile", statements "input.rows", "input.columns") into `transformed` [n * n, channels,
    P]. The stages of `GatheredProduct` compute `products` [n * n, filters, P]. The last stage, in loops output.f,
    output.p, transforms the products of a tile ("output.load", "output.rows", "output.columns") and writes Y in loops
    y, x (statement "store"). Raises ValueError if `m` is not in `OUTPUTS`, if `suits_winograd` is false, or if the
    window does not fit.
    """
    if not suits_winograd(shape):
        raise ValueError(f"Winograd's method is for 3 x 3 taps with stride 1 and one group, not for {shape}")
    batch, channels, filters = shape.batch, shape.channels, shape.filters
    n = m + WINOGRAD_TAPS - 1
    matrices = transforms(m)
    oh, ow = shape.outputs
    high, wide = tile_counts(m, shape)
    tiles = batch * high * wide
    columns = ceil_div(tiles, ALIGNED) * ALIGNED
    top, left, _, _ = shape.window.pads

    def buffer(name: str, *shape: int, scope: str = "dram") -> Buffer:
        return Buffer(name=name, shape=shape, dtype=DType.FLOAT32, scope=scope)

    x_in, y_out = buffer("X", batch, channels, shape.height, shape.width), buffer("Y", batch, filters, oh, ow)
    weight = buffer("W", n * n, channels, filters)
    operands = (epilogue or Epilogue()).buffers((filters,), y_out)
    transformed, products = (
        buffer("transformed", n * n, channels, columns),
        buffer("products", n * n, filters, columns),
    )

    def place(p: Expr) -> tuple[Expr, Expr, Expr]:
        """For tile number `p`: its image, and row and column of its first output."""
        return p // (high * wide), p // wide % high * m, p % wide * m

    def input_stage() -> Stmt:
        tile, half = buffer("tile", 1, 1, n, n, scope="register"), buffer("rows", n, n, scope="register")
        c, p, i, j = (Var(f"input.{v}") for v in "cpij")
        image, y, x = place(p)
        # Tiles behind the last image read zeros.
        load = Copy(
            name="tile",
            destination=region(tile, (0, 1), (0, 1), (0, n), (0, n)),
            source=region(x_in, (image, 1), (c, 1), (y - top, n), (x - left, n)),
            pad=Const(0.0, DType.FLOAT32),
        )
        first = applied("input.rows", matrices.inputs, half, lambda i: (i, j), lambda k: tile[0, 0, k, j])
        second = applied(
            "input.columns",
            matrices.inputs,
            transformed,
            lambda j: (i * n + j, c, p),
            lambda k: half[i, k],
        )
        body = allocated((tile, half), seq(load, nest([(j, n)], first), nest([(i, n)], second)))
        return nest([(c, channels), (p, columns)], body)

    def output_stage() -> Stmt:
        tile, half = buffer("product", n * n, 1, 1, scope="register"), buffer("sums", m, n, scope="register")
        result = buffer("result", m, m, scope="register")
        f, p, i, j = (Var(f"output.{v}") for v in "fpij")
        image, y, x = place(p)
        load = Copy(
            name="output.load",
            destination=region(tile, (0, n * n), (0, 1), (0, 1)),
            source=region(products, (0, n * n), (f, 1), (p, 1)),
        )
        first = applied(
            "output.rows", matrices.outputs, half, lambda i: (i, j), lambda k: tile[k * n + j, 0, 0]
        )
        second = applied("output.columns", matrices.outputs, result, lambda j: (i, j), lambda k: half[i, k])
        dy, dx = Var("y"), Var("x")
        at = (image, f, y + dy, x + dx)
        store = Assign.to("store", y_out[at], operands.value(result[dy, dx], (f,), at))
        inside = [
            (v, Const(m) if size % m == 0 else minimum(m, size - start))
            for v, size, start in ((dy, oh, y), (dx, ow, x))
        ]
        body = seq(load, nest([(j, n)], first), nest([(i, m)], second), nest(inside, store))
        return nest([(f, filters), (p, tiles)], allocated((tile, half, result), body))

    product = GatheredProduct(
        matrices=(n * n,),
        rows=filters,
        depth=channels,
        columns=columns,
        source=lambda matrix, k, j: (*matrix, k, j),
        target=lambda matrix, i, j: (*matrix, i, j),
        bias=lambda matrix, i: (i,),
        plain=channels > 1,
    )
    middle = product.stages(transformed, weight, products, Operands(epilogue=Epilogue()))
    return program_of(
        "winograd",
        (x_in, weight, operands.bias, operands.operand, y_out),
        (transformed, products),
        input_stage(),
        middle,
        output_stage(),
    )


def applied(
    name: str,
    matrix: Matrix,
    to: Buffer,
    at: Callable[[Expr], tuple[Expr, ...]],
    value: Callable[[Expr], Expr],
) -> Stmt:
    """to[at(i)] = sum over k of matrix[i, k] * value(k), a statement for each row: `name`.0, `name`.1 and so on."""
    return seq(
        *[Assign.to(f"{name}.{i}", to[at(Const(i))], combination(row, value)) for i, row in enumerate(matrix)]
    )


def combination(row: Sequence[Fraction], value: Callable[[Expr], Expr]) -> Expr:
    """The sum of row[k] * value(k), without factors 0 and 1; a term with a positive factor comes first, if any."""
    terms = [(factor, value(Const(k))) for k, factor in enumerate(row) if factor]
    terms.sort(key=lambda term: term[0] < 0)
    total: Expr | None = None
    for factor, term in terms:
        size = abs(factor) if total is not None else factor
        if size != 1:
            term = term * Const(float(size), DType.FLOAT32)
        if total is None:
            total = term
        else:
            total = total - term if factor < 0 else total + term
    assert total is not None
    return total


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root) over all roots, beginning with that of x^0."""
    found = [Fraction(1)]
    for root in roots:
        times_x, times_root = [Fraction(0), *found], [*[root * c for c in found], Fraction(0)]
        found = [a - b for a, b in zip(times_x, times_root, strict=True)]
    return found
