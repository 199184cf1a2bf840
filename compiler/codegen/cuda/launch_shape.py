"""Launch shapes: a kernel's grid and blocks, and the arrays in global memory that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.bounds import Ranges, interval, loop_range, loop_ranges
from ...ir.expr import Buffer
from ...ir.kernels import BLOCK_AXES, THREAD_AXES, Kernel, is_thread_loop, threads_of
from ...ir.printer import summarize
from ...ir.regions import read_buffers, write_buffers
from ...ir.stmt import For, Intrinsic
from ...ir.visit import walk
from .errors import LoweringError
from .intrinsics import lanes_of

AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a kernel's launch. `grid`: numbers of blocks along x, y and z. `block`: numbers of threads of a
    block along x, y and z. Also holds the buffers that the kernel reads and writes.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        x, y, z = self.block
        return x * y * z


def shape_of(kernel: Kernel) -> Shape:
    """The shape of a kernel. Raises LoweringError if the extent of a loop has no bound, or if an instruction does not
    allow the kernel's number of threads.
    """
    ranges: Ranges = loop_ranges(kernel.host)
    grid: dict[str, int] = dict.fromkeys(BLOCK_AXES, 1)
    for loop in kernel.blocks:
        high = interval(loop.extent, ranges).high
        if high is None:
            raise LoweringError(
                f"`{summarize(loop)}`: the extent of this loop over blocks needs a constant bound"
            )
        grid[loop.kind] = max(1, high)
        ranges = {**ranges, loop.name: loop_range(loop.extent)}
    block = threads_of(kernel)
    for lanes in lanes_in(kernel):
        if lanes > 1 and block["thread.x"] != lanes:
            raise LoweringError(
                f"an instruction of {lanes} threads needs blocks of {lanes} threads along x, not "
                f"{block['thread.x']}; split every loop bound to thread.x to {lanes} iterations"
            )
    outermost = kernel.blocks[0]
    return Shape(
        grid=tuple(grid[axis] for axis in BLOCK_AXES),  # type: ignore[arg-type]
        block=tuple(block[axis] for axis in THREAD_AXES),  # type: ignore[arg-type]
        reads=read_buffers(outermost),
        writes=write_buffers(outermost),
    )


def lanes_in(kernel: Kernel) -> set[int]:
    """The set of the numbers `lanes_of` (threads along x that execute an instruction together) of all instructions of a
    kernel.
    """
    return {lanes_of(s.declaration) for s in walk(kernel.body) if isinstance(s, Intrinsic)}


def missing_axes(phase: For) -> list[str]:
    """The axes ("x", "y", "z") along which a phase (code that each thread runs by itself) has no loop over threads."""
    own = {s.kind for s in walk(phase) if isinstance(s, For) and is_thread_loop(s)}
    return [axis[-1] for axis in THREAD_AXES if axis not in own]
