"""Storage of a kernel's buffers: memory space, strides and alignment, and the address of an access."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from ...ir.affine import LinearForm
from ...ir.expr import Buffer
from .dialect import Space

ALIGNMENT = 64
"""Alignment in bytes of every array in device memory, guaranteed by storage plans (`graph.storage_plan`)."""
SHARED_ALIGNMENT = 128
"""Alignment in bytes of buffers in shared memory: that of bulk copies (PTX ISA, "cp.async.bulk"), and the width of all
32 banks together.
"""
REGISTER_ALIGNMENT = 16
MOST_VECTOR_BYTES = 16
"""Bytes of the widest access of one thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage of a buffer in a kernel.

    `name`: the buffer's C identifier. `strides`: for each index of the buffer, its stride in elements; 0 if each thread
    holds one value of the index. `elements`: number of elements that are stored. `scalar`: whether accesses need no
    index. `alignment`: alignment of the first element, in bytes. `changed`: whether the kernel writes to the buffer.
    """

    buffer: Buffer
    name: str
    strides: tuple[int, ...]
    elements: int
    space: Space
    alignment: int
    scalar: bool = False
    changed: bool = True

    def vector_elements(self, form: LinearForm, most: int) -> int:
        """Number of elements that one access may take from the flat index `form` on. This is the greatest power of two
        that divides the index in all iterations, is at most `most`, and exceeds neither the buffer's alignment nor the
        widest access.
        """
        size = self.buffer.dtype.bits // 8
        return power_of_two(gcd(form.constant, *form.terms.values(), self.alignment // size), most, size)


def power_of_two(divisor: int, most: int, size: int) -> int:
    """The greatest power of two that divides `divisor` (0 counts as divisible by every number), is at most `most`, and
    is at most the number of elements of `size` bytes that fit in MOST_VECTOR_BYTES.
    """
    count = 1
    while divisor % (2 * count) == 0 and 2 * count <= most and 2 * count * size <= MOST_VECTOR_BYTES:
        count *= 2
    return count


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    return tuple([prod(shape[d + 1 :]) for d in range(len(shape))])


def buffer_bytes(buffer: Buffer) -> int:
    """Size of a buffer in bytes."""
    return prod(buffer.shape) * buffer.dtype.bits // 8


def in_memory(buffer: Buffer, name: str, space: Space, *, changed: bool = True) -> Storage:
    """The storage of a whole array with the C identifier `name`: a parameter in the device's memory (`space` "global"),
    or a buffer that all threads of a block share ("shared"). `changed`: whether the kernel writes to the array.
    """
    return Storage(
        buffer=buffer,
        name=name,
        strides=row_major(buffer.shape),
        elements=prod(buffer.shape),
        space=space,
        alignment=ALIGNMENT if space == "global" else SHARED_ALIGNMENT,
        changed=changed,
    )


def in_registers(buffer: Buffer, name: str, distribution: tuple[str | None, ...] | None = None) -> Storage:
    """The storage of one thread's part of a buffer, with the C identifier `name`. `distribution`: for each dimension,
    the thread axis over which the dimension is distributed, or None. If the whole argument is None, no dimension is
    distributed.
    """
    held = distribution if distribution is not None else (None,) * len(buffer.shape)
    shape = tuple([1 if axis else size for size, axis in zip(buffer.shape, held, strict=True)])
    strides = tuple([0 if axis else s for s, axis in zip(row_major(shape), held, strict=True)])
    return Storage(
        buffer=buffer,
        name=name,
        strides=strides,
        elements=prod(shape),
        space="register",
        alignment=REGISTER_ALIGNMENT,
        scalar=prod(shape) == 1,
    )
