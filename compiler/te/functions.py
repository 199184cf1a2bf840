"""Scalar functions that the interpreter of loop programs calls: thin wrappers of `vdla.isa.arithmetic`.

Functions of the accelerator's store pipeline take numpy arrays or scalars that broadcast against each other and return
int8 (`float32_from_bits`: float32; `row_share`: int32). exp, log, sqrt, tanh, sigmoid, erf and functions computed in
float64 take one float32, divide and power take two; all return the nearest float32. Functions of integers and bits take
integers of one type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import vdla.isa.arithmetic as arithmetic
import vdla.isa.rows as rows
import vdla.isa.scales as scales


def float32_from_bits(bits: ArrayLike) -> NDArray[np.float32]:
    """The float32 values whose bits are those of an int32 array."""
    return np.asarray(bits, np.int32).view(np.float32)


def requantize(
    total: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, low: ArrayLike, high: ArrayLike
) -> NDArray[np.int8]:
    """Stage A of the store pipeline, requantization: clamp(round(`total` * `scale`) + `zero_point`, `low`, `high`) as
    int8. `total`: int32 sums, which include the bias.
    """
    return arithmetic.requantize(
        np.asarray(total, np.int32), scale, zero_point, int(_one(low)), int(_one(high))
    )


def row_share(w: ArrayLike, total: ArrayLike, root: ArrayLike) -> NDArray[np.int32]:
    """2^FRACTION_BITS * `w` / `total`, or with sqrt(`total`) as the divisor if `root` is true: the fixed-point division
    of softmax and normalization, with the rounding of `isa.rows.apply`.
    """
    make = rows.reciprocal_root if bool(_one(root)) else rows.reciprocal
    shape = np.broadcast_shapes(np.shape(w), np.shape(total))
    pairs = zip(np.broadcast_to(w, shape).flat, np.broadcast_to(total, shape).flat, strict=True)
    shares = [rows.apply(np.asarray(own, np.int64), make(int(of))) for own, of in pairs]
    return np.array(shares, np.int32).reshape(shape)


def rescale(
    value: ArrayLike,
    zero_point_in: ArrayLike,
    ratio: ArrayLike,
    zero_point: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
) -> NDArray[np.int8]:
    """Stage B of the store pipeline (the combination) without a second tensor: (value - zero_point_in) * ratio, rounded
    half to even, plus `zero_point`, clamped to `low` .. `high`. `ratio`: old scale / new scale.
    """
    return arithmetic.rescale(
        np.asarray(value, np.int8),
        int(_one(zero_point_in)),
        _one(ratio),
        int(_one(zero_point)),
        int(_one(low)),
        int(_one(high)),
    )


def combine_add(
    first: ArrayLike,
    second: ArrayLike,
    ratio_first: ArrayLike,
    ratio_second: ArrayLike,
    offset: ArrayLike,
    unsigned: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
) -> NDArray[np.int8]:
    """Stage B of the store pipeline (the combination), the sum of two int8 tensors, `first` and `second` in the order
    of the model's inputs: clamp(round(`first` * `ratio_first` + `second` * `ratio_second` + `offset`), `low`, `high`).
    `unsigned`: the model's tensors are uint8, and the int8 tensors hold their values minus 128.
    """
    constants = arithmetic.AddConstants(
        ratio_a=np.float32(_one(ratio_first)),
        ratio_b=np.float32(_one(ratio_second)),
        offset=np.float32(_one(offset)),
        unsigned=bool(_one(unsigned)),
    )
    a, b = np.asarray(first, np.int8), np.asarray(second, np.int8)
    return arithmetic.combine_add(a, b, constants, int(_one(low)), int(_one(high)))


def combine_multiply(first: ArrayLike, second: ArrayLike, *constants: ArrayLike) -> NDArray[np.int8]:
    """Second stage of the store pipeline: the product of two int8 tensors, in the order of the model's inputs.

    `constants`, one scalar each, as in `te.post.Combination`: the zero points of both tensors, the ratio, the result's
    zero point, `unsigned`, and the clamping limits `low` and `high`.
    """
    zero_first, zero_second, ratio, zero_point, unsigned, low, high = map(_one, constants)
    return arithmetic.combine_multiply(
        np.asarray(first, np.int8),
        np.asarray(second, np.int8),
        (int(zero_first), int(zero_second)),
        ratio,
        int(zero_point),
        bool(unsigned),
        int(low),
        int(high),
    )


def quantize(value: ArrayLike, scale: ArrayLike, zero_point: ArrayLike) -> NDArray[np.int8]:
    """QuantizeLinear of float32 values (not NaN) to int8: `zero_point` and result are in the stored int8 representation
    (a uint8 value minus 128).
    """
    return scales.quantize(np.asarray(value, np.float32), _one(scale), int(_one(zero_point)))


def _one(value: ArrayLike) -> Any:
    """The single value of a constant argument, which the interpreter may have broadcast to an array."""
    return np.asarray(value).flat[0]


def _erf(value: ArrayLike) -> NDArray[np.float32]:
    return np.vectorize(math.erf, otypes=[np.float32])(value)


def _round_tf32(value: ArrayLike) -> NDArray[np.float32]:
    bits = np.asarray(value, np.float32).view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    return np.where(finite, (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).view(np.float32)


def _float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `function` with float64 arguments and rounds the result once to float32; infinities
    and NaN as in IEEE 754, without warnings.
    """

    def rounded(*values: ArrayLike) -> NDArray[np.float32]:
        with np.errstate(all="ignore"):
            return np.asarray(function(*[np.asarray(v, np.float64) for v in values])).astype(np.float32)

    return rounded


def _divide(a: ArrayLike, b: ArrayLike) -> NDArray[Any]:
    x, y = np.asarray(a), np.asarray(b)
    with np.errstate(all="ignore"):
        return np.divide(x, y) if x.dtype == np.float64 else _float32(np.divide)(x, y)


def _bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `function`, a function of two integers, after conversion of the second integer to
    the type of the first; overflows cause no warnings.
    """

    def of_type(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(np.asarray(a), np.asarray(b, np.asarray(a).dtype))

    return of_type


def _shifted(left: bool) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Any:
        moved = np.left_shift(a, b) if left else np.right_shift(a, b)
        rest = np.zeros_like(a) if left else np.right_shift(a, a.dtype.type(a.dtype.itemsize * 8 - 1))
        if a.dtype.kind == "u":
            rest = np.zeros_like(a)
        return np.where((b < 0) | (b >= a.dtype.itemsize * 8), rest, moved)

    return shift


def _quotient(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, np.ones_like(b), b)
    floor = np.floor_divide(a, safe)
    toward_zero = floor + ((floor < 0) & (floor * safe != a)).astype(a.dtype)
    return np.where(b == 0, np.zeros_like(a), toward_zero)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_float(a: Any) -> Any:
        value = np.asarray(a)
        return np.asarray(function(value.astype(np.float64))).astype(value.dtype)

    return of_float


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "float32_from_bits": float32_from_bits,
        "requantize": requantize,
        "rescale": rescale,
        "combine_add": combine_add,
        "combine_multiply": combine_multiply,
        "quantize": quantize,
        "row_share": row_share,
        # The float64 quotient of two float32 has enough bits: rounding it to float32 gives the correctly rounded
        # quotient.
        "divide": _divide,
        "exp": _float32(np.exp),
        "log": _float32(np.log),
        "sqrt": _float32(np.sqrt),
        "tanh": _float32(np.tanh),
        "sigmoid": _float32(lambda x: 1 / (1 + np.exp(-x))),
        "erf": _erf,
        "round_tf32": _round_tf32,
        **{
            name: _float32(function)
            for name, function in (
                ("sin", np.sin),
                ("cos", np.cos),
                ("tan", np.tan),
                ("asin", np.arcsin),
                ("acos", np.arccos),
                ("atan", np.arctan),
                ("sinh", np.sinh),
                ("cosh", np.cosh),
                ("asinh", np.arcsinh),
                ("acosh", np.arccosh),
                ("atanh", np.arctanh),
                # For an exponent of exactly 1/2 numpy computes a square root, which is NaN for -inf.
                ("power", lambda a, b: np.power(np.stack([a, a]), np.stack([b, -b]))[0]),
            )
        },
        "floor": _plain(np.floor),
        "ceil": _plain(np.ceil),
        "round_even": _plain(np.round),
        "truncate": _plain(np.trunc),
        "bit_and": _bits(np.bitwise_and),
        "bit_or": _bits(np.bitwise_or),
        "bit_xor": _bits(np.bitwise_xor),
        "shift_left": _bits(_shifted(left=True)),
        "shift_right": _bits(_shifted(left=False)),
        "quotient": _bits(_quotient),
        "remainder": _bits(lambda a, b: np.where(b == 0, np.zeros_like(a), a - b * _quotient(a, b))),
    }
)
