"""Changes of the channel block size on CPUs, compared with numpy, for all pairs of sizes that networks need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from campaign import examples, representatives
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels import targets

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.types import DType
from vdla.compiler.te.ops.relayout import relayout
from vdla.compiler.templates.cpu.lowered import scheduled

BLOCKS = st.sampled_from([1, 2, 3, 4, 8, 16])


def blocked(data: np.ndarray, block: int) -> np.ndarray:
    """The array [batch, channels, plane] in channel blocks, [batch, blocks, plane, block], filled with zeros; unchanged
    if `block` is 1.
    """
    if block == 1:
        return data
    batch, channels, plane = data.shape
    blocks = -(-channels // block)
    padded = np.zeros((batch, blocks * block, plane), np.float32)
    padded[:, :channels] = data
    return np.ascontiguousarray(padded.reshape(batch, blocks, block, plane).transpose(0, 1, 3, 2))


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(1, 2), st.integers(1, 40), st.integers(1, 37), BLOCKS, BLOCKS)
@example(1, 20, 9, 2, 16)
@example(1, 17, 3, 8, 16)
def test_blocks_become_others(batch: int, channels: int, plane: int, before: int, after: int) -> None:
    program = relayout(batch=batch, channels=channels, plane=plane, block_in=before, block_out=after)
    data = np.random.default_rng(0).standard_normal((batch, channels, plane), dtype=np.float32)
    x, expected = blocked(data, before), blocked(data, after)
    np.testing.assert_array_equal(interpret(program, {"X": x})["Y"], expected)
    for target in targets():
        y = np.full_like(expected, np.nan)
        build(scheduled(target, program, parallel=True).program, target)(X=x, Y=y)
        np.testing.assert_array_equal(y, expected)


TYPES = (DType.INT32, DType.UINT8, DType.INT64, DType.FLOAT16, DType.BOOL)
BLOCKS = ((8, 1), (1, 8), (4, 16))


@pytest.mark.parametrize(
    ("blocks", "dtype"),
    representatives(
        itertools.product(BLOCKS, TYPES),
        0,
        always=[(BLOCKS[(i + j) % 3], dtype) for i, dtype in enumerate(TYPES) for j in (0, 1)],
    ),
)
def test_blocks_of_any_type(blocks: tuple[int, int], dtype: DType) -> None:
    before, after = blocks
    program = relayout(batch=1, channels=19, plane=7, block_in=before, block_out=after, dtype=dtype)
    data = np.random.default_rng(0).integers(0, 100, (1, 19, 7)).astype(dtype.numpy)
    x, expected = (blocked(data, block).astype(dtype.numpy) for block in (before, after))
    for target in targets():
        y = np.ones_like(expected)
        build(scheduled(target, program, parallel=True).program, target)(X=x, Y=y)
        np.testing.assert_array_equal(y, expected)
