"""Memory of buffers while a kernel runs (stack slots, workspace), and strides of their elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer

REGISTER_SCOPES = ("register", "local")
"""Scopes that become stack slots, which LLVM turns into registers where all indices are constant after unrolling."""
STACK_BYTES = 16 * 1024
"""Most bytes of one buffer on the stack; larger buffers of any scope are in the workspace."""
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer's memory: base pointer, element strides, known alignment in bytes, whether it is a stack slot."""

    buffer: Buffer
    pointer: str
    strides: tuple[int, ...]
    alignment: int
    on_stack: bool = False


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a dense array."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return tuple(strides)


def buffer_bytes(buffer: Buffer) -> int:
    """Size of a buffer's data in bytes."""
    return prod(buffer.shape) * buffer.dtype.bits // 8


def lies_on_stack(buffer: Buffer) -> bool:
    """Whether an allocation becomes a stack slot."""
    return buffer.scope in REGISTER_SCOPES and buffer_bytes(buffer) <= STACK_BYTES


def stack_layout(buffer: Buffer, lanes: int) -> tuple[tuple[int, ...], int]:
    """Strides and size in elements of a stack slot whose rows are whole vectors of `lanes`.

    A partial vector at the end of a row then reads and writes whole registers without touching the next row; the
    slot ends with a spare vector for partial vectors that do not start at a multiple of `lanes`.
    """
    if not buffer.shape:
        return (), 2 * lanes
    # Dimensions of size 1 after the vectorized one do not separate its elements.
    row = max((d for d, size in enumerate(buffer.shape) if size > 1), default=len(buffer.shape) - 1)
    padded = list(buffer.shape)
    padded[row] = -(-padded[row] // lanes) * lanes
    return row_major(tuple(padded)), prod(padded) + lanes
