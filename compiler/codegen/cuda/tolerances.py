"""Error bounds of sums of products on a GPU. A bound depends on the type of the factors and on the number of products.

Products are exact: float32 holds the product of two mantissas of 11 or 8 bits, and a fused multiply-add does not round
the product of two float32. The bounds hold for every order of a sum. Ordinary lanes round sums to nearest. NVIDIA does
not document how tensor cores round. Measurements show that they align and truncate the terms (Fasi, Higham, Mikaitis,
Pranesh: "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021), so that the error of each step is
less than a unit in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from ...ir.types import DType
from .machine import Precision

PRODUCTS_A_STEP = 8
"""Number of products that a tensor core adds before it truncates the sum: at least 8, the depth of an `mma` of tf32."""
MODEL_TOLERANCE = 1e-5
"""Largest error of a float32 model against ONNX Runtime's results, relative to the largest result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Rounding errors of a precision, as unit roundoffs (largest relative errors of one rounding).

    `inputs`: unit roundoff of the conversion of an input from float32. `sums`: unit roundoff of one addition.
    `cut`: whether additions round toward zero; otherwise they round to nearest.
    """

    inputs: float
    sums: float
    cut: bool


ACCURACIES: Mapping[Precision, Accuracy] = {
    "float32": Accuracy(inputs=0.0, sums=2.0**-24, cut=False),
    "tf32": Accuracy(inputs=2.0**-11, sums=2.0**-23, cut=True),
    "float16": Accuracy(inputs=2.0**-11, sums=2.0**-23, cut=True),
    "bfloat16": Accuracy(inputs=2.0**-8, sums=2.0**-23, cut=True),
    "int8": Accuracy(inputs=0.0, sums=0.0, cut=False),
}
"""Accuracy by precision; int8 is summed in int32, without error."""
OUTPUTS: Mapping[DType, float] = {
    DType.FLOAT32: 2.0**-24,
    DType.FLOAT16: 2.0**-11,
    DType.BFLOAT16: 2.0**-8,
    DType.INT32: 0.0,
}
"""Unit roundoff of a stored result, by type. The rounding error is relative to the result. For results below the type's
normal numbers the error is absolute instead.
"""


def worst_case(precision: Precision, depth: int) -> float:
    """The factor f in |computed - exact| <= f * sum |x| |w|. The bound holds for any sum of `depth` products of rounded
    inputs, added in any order.

    f = n u / (1 - n u), where n is `depth` and u the unit roundoff of sums (Higham, "Accuracy and Stability of
    Numerical Algorithms", 2nd edition, Lemma 3.1 and section 4.2).
    """
    error = depth * ACCURACIES[precision].sums
    return error / (1 - error)


def tolerance(
    precision: Precision, depth: int, *, output: DType = DType.FLOAT32, rounded: bool = True
) -> float:
    """Bound on max |computed - exact| / max |exact| for a product of two matrices of independent random numbers. Each
    element of the product is a sum of `depth` products. `precision`: type of the multiplied inputs. `output`: type in
    which results are stored.

    `rounded`: whether the exact result is computed from the rounded inputs. If not, the rounding errors of both inputs
    are added to the bound. Roundings to nearest add up like a random walk, to 4 sqrt(n) u for n products with unit
    roundoff u (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41,
    2019, Theorem 2.4; the constant 4 means less than one failure in a thousand sums). Roundings toward zero all have
    one sign and add up to n u / 2 for the n steps of a tensor core.
    """
    accuracy = ACCURACIES[precision]
    total = 4 * sqrt(depth) * accuracy.sums + OUTPUTS[output]
    if accuracy.cut:
        total += depth / PRODUCTS_A_STEP / 2 * accuracy.sums
    return total if rounded else total + 2 * accuracy.inputs


def winograd_amplification(
    outputs: Sequence[Sequence[Fraction]],
    weights: Sequence[Sequence[Fraction]],
    inputs: Sequence[Sequence[Fraction]],
) -> float:
    """Ratio of the rounding errors of Winograd's products to the rounding errors of the direct sums.

    `outputs`, `weights` and `inputs` are Winograd's matrices A^T, G and B^T for one dimension; the convolution has two
    dimensions. Assume random taps and inputs, independent and of variance 1. An output of the direct sum then has the
    variance r, the number of taps. In Winograd's sum for output i, product j has the variance A[i, j]^2 |G[j]|^2
    |B[j]|^2 (Euclidean norms). Roundings add up in the same way as variances. For one dimension, the ratio of the
    errors is therefore the square root of the ratio of the variances. Two dimensions square this ratio. So the result
    is the ratio of the variances in one dimension, for the worst output i.

    Examples: 1.67 for F(2, 3); 31.4 for F(4, 3) at the points 0, 1, -1, 2, -2; 10.4 for F(4, 3) at 0, 1, -1, 1/2, -2.
    """
    taps = len(weights[0])

    def squares(row: Sequence[Fraction]) -> float:
        return float(sum(value * value for value in row))

    sizes = [squares(g) * squares(b) for g, b in zip(weights, inputs, strict=True)]
    rows = [sum(float(a * a) * size for a, size in zip(row, sizes, strict=True)) for row in outputs]
    return max(rows) / taps


def winograd_tolerance(depth: int, points: int, amplification: float) -> float:
    """The bound of `tolerance` for float32 by Winograd's method, with `depth` channels and tiles of `points` x `points`
    inputs. `amplification`: the result of `winograd_amplification`.

    A result has depth + 4 * points + 1 roundings. The sum over the channels has `depth` roundings, and the transformed
    weight has one. The transforms before and after the products have `points` roundings each in each of two dimensions.
    """
    unit = ACCURACIES["float32"].sums
    return 4 * sqrt(depth + 4 * points + 1) * amplification * unit + OUTPUTS[DType.FLOAT32]
