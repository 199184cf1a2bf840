"""pack: stores a buffer in tiles and another order of dimensions (weights are packed once, before any call)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..ir.bounds import Ranges, loop_range
from ..ir.expr import Buffer, Const, Expr, Load, Var, binary
from ..ir.replace_buffers import replace_buffers
from ..ir.simplify import simplify
from ..ir.stmt import Alloc, Assign, Copy, For, Intrinsic, Program, Reduce, Region, Seq, Stmt
from ..ir.visit import map_operands
from .errors import LegalityError
from .legality import check_bounds, touches
from .tree import buffer_named, locate_alloc, rebuild

if TYPE_CHECKING:
    from .trace import Step

_ONE = Const(1)

Tiles = tuple[tuple[int, int], ...]
Order = tuple[int, ...]


def pack(program: Program, buffer: str, tiles: Tiles, order: Order) -> Program:
    """Stores a buffer with some dimensions cut into tiles, and all dimensions in another order.

    rewrite (pack("W", ((1, 16),), (1, 0, 2))):
        def f(W: [K, 40], ...):                        def f(W: [3, K, 16], ...):
            for k: for j.0 in range(3):          ->        for k: for j.0 in range(3):
                for j.1: ... W[k, j.0 * 16 + j.1]              for j.1: ... W[j.0, k, j.1]
    `tiles` are (dimension, size), each dimension at most once: a dimension of n elements becomes ceil(n / size) tiles.
    `order` lists the result's dimensions as numbers. Numbers 0 .. n - 1 are the n old dimensions (a tiled dimension
    then counts tiles), and number n + i is the position within a tile of `tiles[i]`. The caller must pack a parameter
    in the same way: `pack_array` does, with zeros in elements of tiles beyond the old shape.
    Legal if each access is to a single element, or is a copy of a box (rectangle of elements). The box must have one
    element or one whole tile in each cut dimension, and its dimensions must stay in order. If tiles extend beyond the
    old shape, a copy's pads must be zeros, and the buffer a parameter.
    """
    old = buffer_named(program, buffer)
    sizes = dict(tiles)
    rank = len(old.shape)
    if len(sizes) != len(tiles) or not all(0 <= d < rank and size >= 1 for d, size in tiles):
        raise LegalityError(
            f"cannot pack {buffer}: {tiles} must be (dimension, size) pairs, each of a different one of its {rank} "
            "dimensions",
            program,
            buffer,
        )
    if sorted(order) != list(range(rank + len(tiles))):
        raise LegalityError(
            f"cannot pack {buffer}: {order} is not a permutation of its dimensions and tiles", program, buffer
        )
    for use in (
        touches(program.body).get(buffer, []) if _is_parameter(program, buffer) else _uses(program, buffer)
    ):
        if isinstance(use.by, Intrinsic):
            raise LegalityError(
                f"cannot pack {buffer}: the intrinsic {use.by.name} accesses a block of it, not single elements",
                program,
                use.by.name,
            )
    shape = packed_shape(old.shape, tiles, order)
    new = Buffer(name=old.name, shape=shape, dtype=old.dtype, scope=old.scope)

    def place(indices: tuple[Expr, ...], ranges: Ranges) -> tuple[Expr, ...]:
        parts: list[Expr] = []
        for d, index in enumerate(indices):
            parts.append(simplify(binary("//", index, sizes[d]), ranges) if d in sizes else index)
        parts += [simplify(binary("%", indices[d], size), ranges) for d, size in tiles]
        return tuple([parts[o] for o in order])

    def expr(e: Expr, ranges: Ranges) -> Expr:
        if isinstance(e, Var | Const):
            return e
        e = map_operands(e, lambda inner: expr(inner, ranges))
        if isinstance(e, Load) and e.buffer.name == buffer:
            return Load(new, place(e.indices, ranges))
        return e

    def box(region: Region, copy: Copy, ranges: Ranges) -> Region:
        if region.buffer.name != buffer:
            return region
        # Elements of tiles beyond the old shape are zeros only in parameters, from `pack_array`.
        padded = copy.pad is not None and region is copy.source
        if padded and any(old.shape[d] % size for d, size in tiles):
            assert copy.pad is not None
            if copy.pad.value != 0 or not _is_parameter(program, buffer):
                reason = f"cannot pack {buffer}: {copy.name} reads pads, but partial tiles may not hold the pad value"
                raise LegalityError(reason, program, copy.name)
        starts, extents = list(region.starts), list(region.extents)
        inner: list[tuple[Expr, Expr]] = []
        for d, size in tiles:
            start, extent = starts[d], extents[d]
            inside = simplify(binary("%", start, size), ranges)
            if extent != _ONE and (extent != Const(size) or inside != Const(0)):
                what = f"a box that is neither one element nor one tile of dimension {d}"
                reason = f"cannot pack {buffer}: {copy.name} copies {what}"
                raise LegalityError(reason, program, copy.name)
            starts[d], extents[d] = simplify(binary("//", start, size), ranges), _ONE
            inner.append((inside, extent))
        parts = [*zip(starts, extents, strict=True), *inner]
        dimensions = [*range(rank), *(d for d, _ in tiles)]
        kept = [dimensions[o] for o in order if parts[o][1] != _ONE]
        if kept != sorted(kept):
            raise LegalityError(
                f"cannot pack {buffer}: the dimensions of the box that {copy.name} copies would change their order",
                program,
                copy.name,
            )
        return Region(
            buffer=new,
            starts=tuple([parts[o][0] for o in order]),
            extents=tuple([parts[o][1] for o in order]),
        )

    def visit(s: Stmt, ranges: Ranges) -> Stmt:
        match s:
            case For(var=var, extent=extent, body=body, kind=kind):
                inner = visit(body, {**ranges, var.name: loop_range(extent)})
                return For(var=var, extent=extent, body=inner, kind=kind)
            case Seq(statements=statements):
                return Seq(statements=tuple([visit(x, ranges) for x in statements]))
            case Alloc(buffer=allocated, body=body):
                return Alloc(buffer=new if allocated.name == buffer else allocated, body=visit(body, ranges))
            case Assign(name=name, buffer=target, indices=indices, value=value):
                if target.name == buffer:
                    target, indices = new, place(indices, ranges)
                return Assign(name=name, buffer=target, indices=indices, value=expr(value, ranges))
            case Reduce(name=name, op=op, buffer=target, indices=indices, value=value, first=first):
                if target.name == buffer:
                    target, indices = new, place(indices, ranges)
                return Reduce(
                    name=name, op=op, buffer=target, indices=indices, value=expr(value, ranges), first=first
                )
            case Copy(destination=destination, source=source):
                return replace(s, destination=box(destination, s, ranges), source=box(source, s, ranges))
        return s

    parameters = tuple([new if p.name == buffer else p for p in program.parameters])
    new_program = Program(name=program.name, parameters=parameters, body=visit(program.body, {}))
    return check_bounds(new_program, program, buffer)


def packed_shape(shape: tuple[int, ...], tiles: Tiles, order: Order) -> tuple[int, ...]:
    """The shape that `pack` with the arguments `tiles` and `order` gives to a buffer of `shape`."""
    sizes = dict(tiles)
    cut = [-(-size // sizes[d]) if d in sizes else size for d, size in enumerate(shape)]
    cut += [size for _, size in tiles]
    return tuple([cut[o] for o in order])


def pack_array(array: np.ndarray, tiles: Tiles, order: Order) -> np.ndarray:
    """An array in the layout that `pack` with the same arguments makes, in fresh contiguous memory."""
    sizes = dict(tiles)
    padding = [(0, -size % sizes[d]) if d in sizes else (0, 0) for d, size in enumerate(array.shape)]
    padded = np.pad(array, padding) if any(behind for _, behind in padding) else array
    cut: list[int] = []
    outer: list[int] = []
    inner: dict[int, int] = {}
    for d, size in enumerate(padded.shape):
        outer.append(len(cut))
        if d in sizes:
            cut.append(size // sizes[d])
            inner[d] = len(cut)
            cut.append(sizes[d])
        else:
            cut.append(size)
    axes = [*outer, *(inner[d] for d, _ in tiles)]
    return np.array(padded.reshape(cut).transpose([axes[o] for o in order]), order="C")


def pack_arrays(trace: Iterable[Step], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The `arrays` (by parameter name) changed as the steps `pack` and `compute_early` of a trace require."""
    packed = dict(arrays)
    for step in trace:
        match step.primitive, *step.arguments:
            case "pack", str(name), tuple(tiles), tuple(order) if name in packed:
                packed[name] = pack_array(packed[name], tiles, order)  # type: ignore[arg-type]
            case "compute_early", str(name), str(function) if name in packed:
                from ..te.functions import FUNCTIONS

                packed[name] = FUNCTIONS[function](packed[name])
    return packed


def _is_parameter(program: Program, buffer: str) -> bool:
    return any(p.name == buffer for p in program.parameters)


def _uses(program: Program, buffer: str):
    path = locate_alloc(program, buffer)
    assert path is not None
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    return touches(alloc.body).get(buffer, [])


def widen(program: Program, buffer: str, dimension: int, size: int) -> Program:
    """Enlarges an allocation in a dimension, which shifts the addresses of later elements (to other banks, or to
    aligned addresses).

    rewrite (widen("T", 1, 40)):
        alloc T: [8, 32] @ shared        ->    alloc T: [8, 40] @ shared
            T[i, j] = f(i, j)                      T[i, j] = f(i, j)
    Nothing uses the new elements. Legal for every allocation that is not wider already.
    """
    path = locate_alloc(program, buffer)
    if path is None:
        raise LegalityError(f"cannot widen {buffer}: it is not allocated in this program", program, buffer)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    shape = list(alloc.buffer.shape)
    if not 0 <= dimension < len(shape) or size < shape[dimension]:
        reason = f"cannot widen {buffer}: it has no dimension {dimension} of at most {size}"
        raise LegalityError(reason, program, buffer)
    shape[dimension] = size
    new = replace(alloc.buffer, shape=tuple(shape))
    return rebuild(path, Alloc(buffer=new, body=replace_buffers(alloc.body, {buffer: new})))
