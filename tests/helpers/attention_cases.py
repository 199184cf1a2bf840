"""Test cases of attention: sizes, random inputs, results in float64. Also counts bank conflicts of shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.ir.expr import Const, select
from vdla.compiler.ir.types import DType
from vdla.compiler.te.ops.attention_sizes import KEY, ROW, Attention, Stored
from vdla.compiler.te.scalars import ELEMENT, argument

BY_POSITION, BY_HEAD, BY_COLUMN = (0, 2, 1, 3), (0, 1, 2, 3), (0, 1, 3, 2)
LEAST = -3.4e38
Arrays = dict[str, np.ndarray]


def sizes_of(
    rows: int,
    keys: int,
    depth: int,
    columns: int,
    *,
    heads: int = 2,
    batch: int = 1,
    repeats: int = 1,
    axes: tuple[tuple[int, ...], ...] = (BY_POSITION,) * 4,
    mask: str = "",
    dtype: DType = DType.FLOAT32,
) -> Attention:
    """An attention of `rows` queries of size `depth` over `keys` keys with values of size `columns`. Its four matrices
    (Q, K, V, result) are stored with the orders of axes `axes`. `repeats`: number of heads that share keys and values.
    `mask`: "causal" (a select by a table of bools; the last row sees all keys), "compared" (the same mask, but by a
    comparison of indices), "added" (a row of float32 added to all rows of scores), or "" for none.
    """

    def stored(shape: tuple[int, ...], axes: tuple[int, ...], repeats: int = 1) -> Stored:
        return Stored(shape=tuple(shape[axes.index(d)] for d in range(4)), axes=axes, repeats=repeats)

    pairs = heads // repeats
    sizes = Attention(
        batch=(batch, heads),
        rows=rows,
        depth=depth,
        keys=keys,
        columns=columns,
        query=stored((batch, heads, rows, depth), axes[0]),
        key=stored((batch, pairs, keys, depth), axes[1], repeats),
        value=stored((batch, pairs, keys, columns), axes[2], repeats),
        result=stored((batch, heads, rows, columns), axes[3]),
        dtype=dtype,
        result_dtype=dtype,
    )
    if mask == "causal":
        seen = argument(3, DType.BOOL)
        scores = select(seen, ELEMENT * 0.25, Const(LEAST, DType.FLOAT32))
        operands = (((1, 1, rows, keys), DType.BOOL),)
        return replace(sizes, scores=scores, operands=operands, ahead=keys - rows)
    if mask == "compared":
        scores = select(ROW + (keys - rows + 1) > KEY, ELEMENT * 0.25, Const(LEAST, DType.FLOAT32))
        return replace(sizes, scores=scores, ahead=keys - rows)
    if mask == "added":
        operands = (((batch, 1, 1, keys), DType.FLOAT32),)
        return replace(sizes, scores=ELEMENT * 0.25 + argument(3), operands=operands)
    return sizes


def case(sizes: Attention) -> tuple[Arrays, np.ndarray]:
    """Returns (random inputs by name of the parameter, with zeros for the output Y; the right result in float64, with
    the axes of Y).
    """
    rng = np.random.default_rng(sizes.rows + sizes.keys)
    arrays: Arrays = {
        name: rng.standard_normal(stored.shape, dtype=np.float32).astype(sizes.dtype.numpy)
        for name, stored in zip("QKV", (sizes.query, sizes.key, sizes.value), strict=True)
    }
    q, k, v = (
        np.repeat(arrays[name].astype(np.float64).transpose(stored.axes), stored.repeats, axis=-3)
        for name, stored in zip("QKV", (sizes.query, sizes.key, sizes.value), strict=True)
    )
    scores = q @ k.swapaxes(-1, -2)
    if sizes.ahead is not None and not sizes.operands:
        seen = np.tri(sizes.rows, sizes.keys, sizes.ahead, dtype=np.bool_)
        scores = np.where(seen, scores * 0.25, LEAST)
    if sizes.operands:
        ((shape, dtype),) = sizes.operands
        if dtype is DType.BOOL:
            arrays["A3"] = np.tri(*shape[-2:], shape[-1] - shape[-2], dtype=np.bool_).reshape(shape)
            scores = np.where(arrays["A3"], scores * 0.25, LEAST)
        else:
            # The first keys are masked, more of them than one step has.
            mask = np.where(np.arange(shape[-1]) < shape[-1] * 2 // 3, -np.inf, 0)
            arrays["A3"] = np.broadcast_to(mask, shape).astype(np.float32)
            scores = scores * 0.25 + arrays["A3"]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    y = weights / weights.sum(axis=-1, keepdims=True) @ v
    axes = sizes.result.axes
    arrays["Y"] = np.zeros(sizes.result.shape, sizes.result_dtype.numpy)
    return arrays, y.transpose(tuple(axes.index(d) for d in range(4)))


def conflicts(elements: np.ndarray, width: int) -> int:
    """The largest number of accesses that one bank of shared memory must serve one after the other. `elements`: for
    each warp, the first words of the vectors that its 32 threads access; a vector has `width` words. 32 / `width`
    threads access memory at once, and equal vectors count as one access (CUDA C++ Programming Guide, "Shared Memory").
    """
    worst = 0
    for warp in elements:
        for some in warp.reshape(width, -1):
            distinct = np.unique(some)
            banks = (distinct[:, None] + np.arange(width)).reshape(-1) % 32
            worst = max(worst, int(np.bincount(banks, minlength=32).max()))
    return worst
