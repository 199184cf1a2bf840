"""Memory of arrays that kernels work on: where an array begins, and how large the pages are that it lies on.

A kernel's time depends on both: arrays that begin at other places within a page get in each other's way differently,
and on pages of 4 KiB a product that reads some megabytes of weights looks up a thousand addresses. So large arrays
begin on pages, huge ones where the system has them: equal kernels find equal places in every network and process.
"""

from __future__ import annotations

import contextlib
import mmap
from math import prod

import numpy as np

from .storage import ALIGNMENT

PAGE = 4096
HUGE_PAGE = 2 << 20
"""Bytes, of x86 and of most ARM systems; where they are others, the system's advice is for other boundaries."""
MOST_AHEAD = 64 << 20
"""Bytes of addresses that `Constants` takes at once, at most; memory stands behind those alone that are written to."""


class Constants:
    """Memory for the constants of one network, or of several that share them, which lie side by side on huge pages.

    Arrays keep the block alive in which they lie.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0
        self._taken = 0

    def copy(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The array in another shape of as many elements; on a page, or on a cache line if it is less than one."""
        result = self._empty(array.nbytes).view(array.dtype).reshape(shape)
        np.copyto(result, array.reshape(shape))
        return result

    def _empty(self, size: int) -> np.ndarray:
        start = -(-self._used // _alignment(size)) * _alignment(size)
        if start + size > self._block.size:
            # As much again as there is: few blocks, and no network takes more than twice what it needs.
            ahead = min(max(self._taken, HUGE_PAGE), MOST_AHEAD)
            self._block, start = _huge_pages(max(size, ahead)), 0
            self._taken += self._block.size
        self._used = start + size
        return self._block[start : start + size]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array that starts on a cache line; a large one on a huge page."""
    size = prod(shape) * dtype.itemsize
    raw = _huge_pages(size) if size >= HUGE_PAGE else _on(_alignment(size), size)
    return raw[:size].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array on a cache line, in another shape of as many elements."""
    result = aligned_empty(shape, array.dtype)
    np.copyto(result, array.reshape(shape))
    return result


def _alignment(size: int) -> int:
    return PAGE if size >= PAGE else ALIGNMENT


def _on(alignment: int, size: int) -> np.ndarray:
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


def _huge_pages(size: int) -> np.ndarray:
    """At least `size` bytes that begin at a huge page; ordinary memory if the system has no huge pages to advise."""
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return _on(PAGE, size)
    try:
        # Private: a process that is forked may not write into it. The boundary lies somewhere in the first huge page.
        mapped = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the system has no {size:,} bytes of memory: {error}") from None
    raw = np.frombuffer(mapped, np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE
    with contextlib.suppress(OSError):  # Kernels without huge pages refuse the advice.
        mapped.madvise(mmap.MADV_HUGEPAGE, start, size)
    return raw[start : start + size]
