"""Arithmetic of the array and of the store pipeline, compiled by numba. `isa.arithmetic` defines the store pipeline's
formulas.

`multiply_tile` is one operation of the array on 16 output lanes, as portable vector IR: sums of products of int16 pairs
in int32. LLVM selects one instruction for it if the processor has one (pmaddwd, or VNNI).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vdla.util.machine_code import compiled

LANES = 16
"""Output lanes that `multiply_tile` computes at once."""


@intrinsic
def multiply_tile(typing_context: Any, target: Any, weights: Any, inputs: Any, pairs: Any, add: Any) -> Any:
    """Sets target[16] (int32) to the sum over pairs p of weights[p][16][2] x inputs[p][2] (int16), plus target if `add`
    is 1. An intrinsic of numba, which passes `typing_context` itself.

    `target`, `weights` and `inputs` are addresses, `pairs` the number of pairs; all arguments are int64.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        target, weights, inputs, pairs, add = arguments
        word = ir.IntType(32)
        sums = ir.VectorType(word, LANES)
        wide = ir.VectorType(word, 2 * LANES)
        halves = ir.VectorType(ir.IntType(16), 2 * LANES)
        chosen = ir.VectorType(word, LANES)
        undefined = ir.Constant(sums, ir.Undefined)

        def at(address: Any, kind: ir.Type, index: Any, size: int) -> Any:
            offset = builder.mul(index, ir.Constant(index.type, size))
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        total = cgutils.alloca_once_value(builder, ir.Constant(sums, [0] * LANES))
        with cgutils.for_range(builder, pairs) as loop:
            weight = builder.load(at(weights, halves, loop.index, 4 * LANES), align=2)
            pair = builder.load(at(inputs, word, loop.index, 4), align=2)
            first = builder.insert_element(undefined, pair, ir.Constant(word, 0))
            splat = builder.shuffle_vector(first, undefined, ir.Constant(chosen, [0] * LANES))
            spread = builder.bitcast(splat, halves)
            product = builder.mul(builder.sext(weight, wide), builder.sext(spread, wide))
            nothing = ir.Constant(wide, ir.Undefined)
            even = builder.shuffle_vector(product, nothing, ir.Constant(chosen, list(range(0, 32, 2))))
            odd = builder.shuffle_vector(product, nothing, ir.Constant(chosen, list(range(1, 32, 2))))
            builder.store(builder.add(builder.load(total), builder.add(even, odd)), total)
        place = builder.inttoptr(target, sums.as_pointer())
        with builder.if_then(cgutils.is_not_null(builder, add)):
            builder.store(builder.add(builder.load(total), builder.load(place, align=4)), total)
        builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """`a` * `b` + `c` in float32 with one rounding. An intrinsic of numba, which passes `typing_context` itself."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


@compiled()
def saturate(value, zero_point, low, high):  # type: ignore[no-untyped-def]
    """float32 `value` rounded half to even, plus `zero_point`, clamped to [low, high], as int64; 0 for NaN."""
    shifted = np.float64(np.rint(value)) + zero_point
    if shifted != shifted:
        return np.int64(0)
    return np.int64(min(max(shifted, np.float64(low)), np.float64(high)))


@compiled()
def requantize(total, scale, zero_point, low, high):  # type: ignore[no-untyped-def]
    """Requantization (stage A of the store pipeline) of one int32 `total`. Computes clamp(rne(float32(total) * scale) +
    zero_point, low, high), where rne rounds half to even; returns the same as `isa.arithmetic.requantize`.
    """
    return saturate(np.float32(total) * scale, zero_point, low, high)


@compiled()
def combine_add(a, b, ratio_a, ratio_b, offset, unsigned, low, high):  # type: ignore[no-untyped-def]
    """Addition of two int8 values in stage B (the operation after requantization) of the store pipeline. Computes
    clamp(rne(fma(a, ratio_a, fma(b, ratio_b, offset))), low, high), where rne rounds half to even; returns the same as
    `isa.arithmetic.combine_add`. `unsigned`: the model's type is uint8, so `a` and `b` are raised by 128 before, and
    the rounded sum is lowered by 128 before it is clamped.
    """
    shift = 128 if unsigned else 0
    # numba passes the typing context of an intrinsic, which pyright cannot know.
    inner = fused_multiply_add(np.float32(b + shift), ratio_b, offset)  # pyright: ignore[reportCallIssue]
    total = fused_multiply_add(np.float32(a + shift), ratio_a, inner)  # pyright: ignore[reportCallIssue]
    return saturate(total, -shift, low, high)


@compiled()
def combine_multiply(a, b, zeros, ratio, zero_point, unsigned, low, high):  # type: ignore[no-untyped-def]
    """Multiplication of two int8 values in stage B (the operation after requantization) of the store pipeline. Computes
    clamp(rne(float32((a - zero_a) * (b - zero_b)) * ratio + zero_point), low, high), where rne rounds half to even;
    returns the same as `isa.arithmetic.combine_multiply`. `zeros`: zero points of `a` and `b`. `unsigned`: the model's
    type is uint8, so 128 is added before rounding and subtracted after it.
    """
    shift = 128 if unsigned else 0
    product = np.int32((a - zeros[0]) * (b - zeros[1]))
    return saturate(np.float32(product) * ratio + np.float32(zero_point + shift), -shift, low, high)
