"""Kernels of a program: the loops over blocks, the threads that their phases ask for, and what each buffer is to
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.bounds import Interval, Ranges, interval, loop_range
from ...ir.expr import Buffer, Expr
from ...ir.printer import summarize
from ...ir.regions import read_regions, write_regions
from ...ir.stmt import For, Intrinsic, Stmt
from ...ir.visit import children
from .errors import LoweringError
from .intrinsics import lanes_of

AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel: its loops over blocks, outermost first, and what each block does.

    `grid` and `block` are extents along x, y, z. `around` are the ranges of the host's loops, whose variables are
    arguments; `reads` and `writes` the buffers of device memory that it touches.
    """

    loops: tuple[For, ...]
    body: Stmt
    around: Ranges
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z


def is_axis(statement: Stmt) -> bool:
    """Whether a statement is a loop over blocks or threads."""
    return isinstance(statement, For) and statement.kind.startswith(("block.", "thread."))


def kernel_of(statement: For, around: Ranges) -> Kernel:
    """The kernel that begins with this loop, inside of the host's loops `around`."""
    loops: list[For] = []
    ranges = dict(around)
    grid: dict[str, int] = dict.fromkeys(AXES, 1)
    body: Stmt = statement
    while isinstance(body, For) and body.kind.startswith("block."):
        grid[body.kind[-1]] = _bound(body, ranges)
        ranges[body.name] = loop_range(body.extent)
        loops.append(body)
        body = body.body
    block: dict[str, int] = dict.fromkeys(AXES, 1)
    lanes: set[int] = set()
    _find_threads(body, ranges, block, lanes)
    if len(lanes) > 1:
        raise LoweringError(
            f"a kernel uses instructions of {' and of '.join(map(str, sorted(lanes)))} threads"
        )
    for count in lanes:
        if block["x"] not in (1, count):
            raise LoweringError(
                f"an instruction of {count} threads needs blocks of as many along x, not {block['x']}; "
                f"bind the other phases' loops over threads to x in parts of {count}"
            )
        block["x"] = count
    inside = For(var=statement.var, extent=statement.extent, body=statement.body, kind=statement.kind)
    return Kernel(
        loops=tuple(loops),
        body=body,
        around=around,
        grid=(grid["x"], grid["y"], grid["z"]),
        block=(block["x"], block["y"], block["z"]),
        reads=tuple(read_regions(inside)),
        writes=tuple(write_regions(inside)),
    )


def _bound(loop: For, ranges: Ranges) -> int:
    high = interval(loop.extent, ranges).high
    if high is None:
        raise LoweringError(f"`{summarize(loop)}`: the extent has no constant bound")
    return max(1, high)


def _find_threads(
    statement: Stmt, ranges: dict[str, Interval | Expr], block: dict[str, int], lanes: set[int]
) -> None:
    match statement:
        case For(kind=kind):
            if kind.startswith("block."):
                raise LoweringError(
                    f"`{summarize(statement)}` stands inside of a kernel; loops over blocks must be its outermost ones"
                )
            if kind.startswith("thread."):
                block[kind[-1]] = max(block[kind[-1]], _bound(statement, ranges))
            ranges = {**ranges, statement.name: loop_range(statement.extent)}
        case Intrinsic(declaration=declaration):
            if (count := lanes_of(declaration)) > 1:
                lanes.add(count)
    for child in children(statement):
        _find_threads(child, ranges, block, lanes)


def leaves(statement: Stmt) -> Iterator[Stmt]:
    """The statements in it that hold no others, in program order."""
    inner: Sequence[Stmt] = children(statement)
    if not inner:
        yield statement
    for child in inner:
        yield from leaves(child)
