"""Memory of kernels' arrays: alignment, blocks that several arrays share and keep alive, and systems without huge
pages.
"""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.memory import (
    ALIGNMENT,
    HUGE_PAGE,
    PAGE,
    Constants,
    aligned_copy,
    aligned_empty,
)

FLOAT = np.dtype(np.float32)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


@pytest.mark.parametrize("advised", [True, False], ids=["huge-pages", "no-huge-pages"])
def test_constants_are_copies_that_begin_on_pages(advised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not advised:
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(size).astype(FLOAT) for size in (3, 1024, 700_000, 1, 1500, 300_000, 0, 9)]
    memory = Constants()
    placed = [memory.copy(array, (1, array.size)) for array in arrays]
    for array, copy in zip(arrays, placed, strict=True):
        assert copy.shape == (1, array.size) and copy.dtype == FLOAT
        assert address(copy) % (PAGE if array.nbytes >= PAGE else ALIGNMENT) == 0
    kept = [array.copy() for array in arrays]
    for array in arrays:
        array.fill(-1)
    for i, copy in enumerate(placed):
        np.testing.assert_array_equal(copy[0], kept[i])
        assert not any(np.may_share_memory(copy, other) for other in placed[i + 1 :])


def test_constants_that_follow_each_other_lie_side_by_side() -> None:
    memory = Constants()
    first, second, third = (memory.copy(np.zeros(1025, FLOAT), (1025,)) for _ in range(3))
    assert address(second) - address(first) == address(third) - address(second) == 2 * PAGE
    assert address(first) % HUGE_PAGE == 0


def test_an_array_keeps_its_block_alive_when_the_memory_is_gone() -> None:
    memory = Constants()
    kept = memory.copy(np.arange(5000, dtype=FLOAT), (5000,))
    for _ in range(3):
        memory.copy(np.ones(2_000_000, FLOAT), (2_000_000,))
    del memory
    gc.collect()
    np.testing.assert_array_equal(kept, np.arange(5000, dtype=FLOAT))


@pytest.mark.parametrize("size", [1, PAGE // 4, HUGE_PAGE // 4 - 1, HUGE_PAGE // 4, 3_000_001])
def test_large_arrays_begin_on_huge_pages(size: int) -> None:
    empty = aligned_empty((1, size), FLOAT)
    assert empty.shape == (1, size) and empty.flags.writeable and empty.flags.c_contiguous
    wanted = HUGE_PAGE if 4 * size >= HUGE_PAGE else PAGE if 4 * size >= PAGE else ALIGNMENT
    assert address(empty) % wanted == 0
    empty.fill(2)
    np.testing.assert_array_equal(aligned_copy(empty, (size,)), np.full(size, 2, FLOAT))


def test_an_array_larger_than_any_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        aligned_empty((1 << 60,), np.dtype(np.uint8))
