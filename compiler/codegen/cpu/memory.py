"""Memory of kernels. Buffers inside a kernel are stack slots or parts of its workspace; this module gives their sizes
and strides. Arrays outside of kernels are allocated here with an alignment.

A kernel's time depends on the arrays' alignment and pages: cache conflicts depend on where in a page an array starts,
and with pages of 4 KiB a product that reads several megabytes of weights needs a thousand address translations. Large
arrays therefore begin at page boundaries, on huge pages if the system has them. So equal kernels have equal alignment
in every network and process.
"""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import dataclass
from math import prod

import numpy as np

from ...ir.expr import Buffer

REGISTER_SCOPES = ("register", "local")
"""Scopes whose buffers become stack slots. LLVM keeps a slot in registers if its indices are constant after unrolling.
"""
STACK_BYTES = 16 * 1024
"""Largest number of bytes of one buffer on the stack; larger buffers of any scope are in the workspace."""
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer's memory: base pointer, element strides, known alignment in bytes, and whether it is a stack slot."""

    buffer: Buffer
    pointer: str
    strides: tuple[int, ...]
    alignment: int
    on_stack: bool = False


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return tuple(strides)


def buffer_bytes(buffer: Buffer) -> int:
    """Size of a buffer's data in bytes."""
    return prod(buffer.shape) * buffer.dtype.bits // 8


def lies_on_stack(buffer: Buffer) -> bool:
    """Whether a buffer that a kernel allocates becomes a stack slot. Other buffers are in the workspace."""
    return buffer.scope in REGISTER_SCOPES and buffer_bytes(buffer) <= STACK_BYTES


def stack_layout(buffer: Buffer, lanes: int) -> tuple[tuple[int, ...], int]:
    """Strides and size in elements of a stack slot whose rows are whole vectors of `lanes`.

    So an access to a partial vector at the end of a row can move a whole register and does not touch the next row. The
    slot ends with a spare vector, for partial vectors that do not start at a multiple of `lanes`.
    """
    if not buffer.shape:
        return (), 2 * lanes
    # Dimensions of size 1 after the vectorized one do not separate its elements.
    row = max((d for d, size in enumerate(buffer.shape) if size > 1), default=len(buffer.shape) - 1)
    padded = list(buffer.shape)
    padded[row] = -(-padded[row] // lanes) * lanes
    return row_major(tuple(padded)), prod(padded) + lanes


PAGE = 4096
HUGE_PAGE = 2 << 20
"""Bytes of a huge page on x86 and most ARM systems. On systems with huge pages of another size, arrays aligned to this
size may begin inside a huge page, which is harmless.
"""
MOST_AHEAD = 64 << 20
"""Largest number of bytes of address space that `Constants` reserves at once; only written pages use memory."""


class Constants:
    """Memory for the constants of one network, or of several networks that share them, contiguous on huge pages.

    Each returned array keeps the memory block that contains it alive.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0
        self._taken = 0

    def copy(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """A copy of the array, reshaped to `shape`. Begins at a page, or at a cache line if smaller than a page."""
        result = self._empty(array.nbytes).view(array.dtype).reshape(shape)
        np.copyto(result, array.reshape(shape))
        return result

    def _empty(self, size: int) -> np.ndarray:
        start = -(-self._used // _alignment(size)) * _alignment(size)
        if start + size > self._block.size:
            # At least as much as all earlier blocks: few blocks, and no network takes more than twice what it needs.
            ahead = min(max(self._taken, HUGE_PAGE), MOST_AHEAD)
            self._block, start = _huge_pages(max(size, ahead)), 0
            self._taken += self._block.size
        self._used = start + size
        return self._block[start : start + size]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array. Small arrays begin at a cache line, larger ones at a page, the largest at a huge page."""
    size = prod(shape) * dtype.itemsize
    raw = _huge_pages(size) if size >= HUGE_PAGE else _on(_alignment(size), size)
    return raw[:size].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of the array, reshaped to `shape` and aligned as `aligned_empty` aligns it."""
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
    """At least `size` bytes that begin at a huge page; ordinary memory if the system has no huge pages to request."""
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return _on(PAGE, size)
    try:
        # Private, so that a forked process cannot write into it. The boundary is somewhere in the first huge page.
        mapped = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the system cannot allocate {size:,} bytes of memory: {error}") from None
    raw = np.frombuffer(mapped, np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE
    with contextlib.suppress(OSError):  # Linux kernels without huge pages refuse the advice.
        mapped.madvise(mmap.MADV_HUGEPAGE, start, size)
    return raw[start : start + size]
