"""prepare: runs the passes and checks that a scheduled program needs before code generation or emulation.

The passes sum in blocks, narrow allocations and insert barriers. The checks test that the program is in kernel form,
that the GPU has the instructions and the asynchronous copies that the program uses, that blocks and grids stay within
their limits, and that there are no races.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...ir.bounds import interval, loop_ranges
from ...ir.kernels import Kernel, is_thread_loop, kernel_obstacle, kernels, threads_of
from ...ir.printer import summarize
from ...ir.stmt import Copy, Intrinsic, Program
from ...ir.visit import walk
from ...passes.insert_barriers import insert_barriers
from ...passes.narrow_allocations import narrow_allocations
from ...passes.pipeline import Pass, run_pipeline
from ...passes.sum_in_blocks import sum_in_blocks
from . import wgmma
from .architectures import BLOCK_LIMITS, GRID_LIMITS, KIB
from .bulk_copies import check_bulk_copies
from .errors import LoweringError
from .intrinsics import capability_of
from .machine import GpuTarget
from .races import check_races
from .shared_memory import plan_shared
from .text import Names
from .wgmma_emit import has_products


def sum_in_threads(program: Program) -> Program:
    """The program in which long sums that one thread computes are summed in blocks (`sum_in_blocks`).

    Sums by instructions of a warp or warpgroup stay unchanged, because sums in blocks would need twice the registers.
    """
    return sum_in_blocks(program, within=is_thread_loop)


PASSES = (
    Pass("sum_in_blocks", sum_in_threads),
    Pass("narrow_allocations", narrow_allocations),
    Pass("insert_barriers", insert_barriers),
)


def prepare(
    program: Program,
    target: GpuTarget,
    *,
    check: bool = True,
    dump: Callable[[str, str], None] | None = None,
) -> Program:
    """Runs `PASSES`, which insert barriers, on a program in kernel form (all work inside loops over blocks), then all
    `CHECKS`. `dump(name, text)` receives the program's text after each pass.

    Raises LoweringError (RaceError for races) or VerifyError; the message names the fault. If `check` is False, only
    the form of the program is checked.
    """
    check_form(program, target)
    program = run_pipeline(program, PASSES, check=check, dump=dump)
    for checking in CHECKS if check else ():
        checking(program, target)
    return program


def check_form(program: Program, target: GpuTarget) -> None:
    """Raises LoweringError unless a program is in kernel form (all work is inside loops over GPU blocks). `target` has
    no effect.
    """
    if (reason := kernel_obstacle(program)) is not None:
        raise LoweringError(f"{program.name}: {reason}")


def check_limits(program: Program, target: GpuTarget) -> None:
    """Raises LoweringError if a kernel has more threads, blocks or shared memory than the target allows."""
    for kernel in kernels(program):
        _check_grid(kernel)
        _check_block(kernel, target)
        held = shared_bytes(kernel, target)
        if held > target.shared_bytes_per_block:
            raise LoweringError(
                f"{kernel.name}: needs {held / KIB:.1f} KiB of shared memory, but a block of {target.arch} has at "
                f"most {target.shared_bytes_per_block / KIB:.1f} KiB; make the tiles smaller, or the stages fewer"
            )


def _check_grid(kernel: Kernel) -> None:
    loops = kernel.host
    for loop in kernel.blocks:
        extent = interval(loop.extent, loop_ranges(loops)).high
        axis = loop.kind[-1]
        if extent is not None and extent > GRID_LIMITS[axis]:
            raise LoweringError(
                f"`{summarize(loop)}` makes {extent} blocks along {axis}, but a grid has at most {GRID_LIMITS[axis]}; "
                "bind the longest loop to block.x"
            )
        loops = (*loops, loop)


def _check_block(kernel: Kernel, target: GpuTarget) -> None:
    threads = threads_of(kernel)
    for kind, count in threads.items():
        if count > BLOCK_LIMITS[kind[-1]]:
            raise LoweringError(
                f"{kernel.name}: {count} threads along {kind[-1]}, but a block has at most {BLOCK_LIMITS[kind[-1]]}; "
                "split the loop"
            )
    if (total := prod(threads.values())) > target.threads_per_block:
        shape = " x ".join(str(n) for n in threads.values())
        raise LoweringError(
            f"{kernel.name}: {shape} = {total} threads, but a block has at most {target.threads_per_block}; "
            "split the loops"
        )


def shared_bytes(kernel: Kernel, target: GpuTarget) -> int:
    """Bytes of shared memory of a kernel; buffers share bytes only if the target's language allows this."""
    return plan_shared(kernel, Names(), overlays=target.dialect.overlays).bytes


def check_copies(program: Program, target: GpuTarget) -> None:
    """Raises LoweringError for asynchronous copies that no hardware supports. An asynchronous copy must go from global
    to shared memory, and must not convert elements. `target` has no effect.
    """
    for kernel in kernels(program):
        for node in walk(kernel.body):
            if isinstance(node, Copy) and node.asynchronous:
                _check_copy(node)


def _check_copy(copy: Copy) -> None:
    to, of = copy.destination.buffer, copy.source.buffer
    if to.scope != "shared" or of.scope != "dram":
        raise LoweringError(
            f"`{summarize(copy)}` copies asynchronously from {of.scope} to {to.scope}, but hardware does so from "
            "global to shared memory only; place the buffer that it fills in shared"
        )
    if to.dtype is not of.dtype:
        raise LoweringError(
            f"`{summarize(copy)}` converts the element type, which an asynchronous copy cannot do"
        )


def check_order(program: Program, target: GpuTarget) -> None:
    """Raises RaceError if threads or blocks of a kernel access an element without synchronization
    (`races.check_races`). `target` has no effect.
    """
    check_races(program)


def check_instructions(program: Program, target: GpuTarget) -> None:
    """Raises LoweringError for instructions that the architecture lacks, for bulk copies on a target without them, and
    for accesses to swizzled buffers that `check_bulk_copies` refuses.
    """
    for kernel in kernels(program):
        if not target.has("wgmma") and has_products(kernel.body):
            raise LoweringError(
                f"{kernel.name}: only {wgmma.ARCHITECTURE} has the instruction wgmma, not {target.arch}; generate "
                "code with -arch=sm_90, or multiply with mma"
            )
        for node in walk(kernel.body):
            if not isinstance(node, Intrinsic):
                continue
            needed = capability_of(node.declaration)
            if needed is not None and not target.has(needed):
                raise LoweringError(
                    f"`{summarize(node)}` needs {needed}, which {target.arch} lacks; do not tensorize its loops with "
                    "this intrinsic"
                )
        check_bulk_copies(kernel, target)


CHECKS = (check_form, check_instructions, check_limits, check_copies, check_order)
