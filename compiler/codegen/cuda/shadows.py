"""Memory of emulated kernels: poison values in unwritten memory, and asynchronous copies in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ...ir.expr import Buffer, Const, Expr, Load, Var, all_of, binary, cast, equal, select
from ...ir.kernels import Kernel
from ...ir.stmt import Assign, Copy, Region, Stmt, Wait, nest, seq
from ...ir.types import DType
from ...ir.visit import walk

_ZERO, _ONE = Const(0), Const(1)


class Names:
    """Generator of unique loop names. A generated name ends with an apostrophe and a number, as in "i'3"."""

    def __init__(self) -> None:
        self.count = 0

    def var(self, name: str) -> Var:
        """A loop variable with a unique name similar to `name`."""
        self.count += 1
        return Var(f"{name}'{self.count}")


def poison(dtype: DType) -> Const:
    """The constant that undefined memory of a type is filled with: NaN, True, or a large integer of equal bytes."""
    if dtype.is_float:
        return Const(float("nan"), dtype)
    if dtype is DType.BOOL:
        return Const(True, dtype)
    byte = 0xA5 if dtype.limits[0] == 0 else 0x5A
    return Const(int.from_bytes(bytes([byte] * (dtype.bits // 8))), dtype)


def fill(buffer: Buffer, names: Names, value: Const | None = None) -> Stmt:
    """Loops that fill a buffer with `value` (None: poison, which marks undefined contents). `names` makes the loops'
    names.
    """
    loops = [(names.var(f"{buffer.name}.{d}"), size) for d, size in enumerate(buffer.shape)]
    body = Assign.to(
        f"{buffer.name}.undefined",
        buffer[tuple([var for var, _ in loops])],
        poison(buffer.dtype) if value is None else value,
    )
    return nest(loops, body)


class Shadows:
    """Buffers that record the asynchronous copies in flight in an emulated block.

    Each buffer that asynchronous copies fill has two additional buffers, a shadow and stamps. The shadow holds the
    copied data until a wait. The stamps say, for each element, which copy in flight fills the element. A stamp is 0 if
    there is none, else g * count + n + 1 for a copy of thread n (of `count` threads) in group g (counted from 1).
    """

    def __init__(self, kernel: Kernel, names: Names, threads: Mapping[str, int], axes: Sequence[str]) -> None:
        self.names = names
        self.threads = threads
        self.axes = axes
        self.count = prod(threads.values())
        late = {
            n.destination.buffer.name: n.destination.buffer
            for n in walk(kernel.body)
            if isinstance(n, Copy) and n.asynchronous
        }
        self.late = list(late.values())
        self.shadows = {b.name: replace(b, name=f"{b.name}.shadow", scope="dram") for b in self.late}
        self.stamps = {
            b.name: replace(b, name=f"{b.name}.stamp", dtype=DType.INT32, scope="dram") for b in self.late
        }
        shape = tuple([self.threads[axis] for axis in self.axes]) or (1,)
        name = f"{kernel.name}.committed"
        self.committed = Buffer(name=name, shape=shape, dtype=DType.INT32)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The shadow buffers and counters to allocate for a block; () if the block has no asynchronous copies."""
        return (*self.shadows.values(), *self.stamps.values(), self.committed) if self.late else ()

    def clear(self) -> list[Stmt]:
        """The statements at the beginning of a block that reset the state: no copy in flight, no group committed."""
        if not self.late:
            return []
        zeros = (*self.stamps.values(), self.committed)
        return [fill(b, self.names, Const(0, b.dtype)) for b in zeros]

    def commit(self, places: Mapping[str, Expr]) -> Stmt:
        """A statement that commits one more group of copies of the thread with coordinates `places`."""
        at = self.place(places)
        value = binary("+", self.committed[at], Const(1, DType.INT32))
        return Assign.to("commit", self.committed[at], value)

    def place(self, places: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Indices into the buffer `committed` (number of committed groups by thread) of the thread with coordinates
        `places`.
        """
        return tuple([places.get(axis, _ZERO) for axis in self.axes]) or (_ZERO,)

    def number(self, places: Mapping[str, Expr]) -> Expr:
        """The number, within its block, of the thread with coordinates `places`."""
        number: Expr = _ZERO
        for axis in self.axes:
            number = binary("+", binary("*", number, self.threads[axis]), places.get(axis, _ZERO))
        return number

    def issue(self, copy: Copy, places: Mapping[str, Expr], *, whole: bool = False) -> Stmt:
        """Statements that emulate the issue of an asynchronous copy by the thread at `places`: the data goes to a
        shadow buffer, and the copy's destination becomes undefined and is stamped with the copy's group and thread.

        `whole`: whether the copy is issued once for the whole block. If such a copy has pads, it copies single
        elements: its box (rectangular part) is large and crosses the edges of the array, and the verifier could not
        prove that copies of rows are legal.
        """
        box = copy.destination
        shadow, stamp = self.shadows[box.buffer.name], self.stamps[box.buffer.name]
        group = binary("+", self.committed[self.place(places)], Const(1, DType.INT32))
        number = cast(binary("+", self.number(places), _ONE), DType.INT32)
        mark = binary("+", binary("*", group, Const(self.count, DType.INT32)), number)
        moved = replace(copy, destination=replace(box, buffer=shadow), asynchronous=False)
        return seq(
            self.elements(moved) if whole and copy.pad is not None else moved,
            self.over(box, box.buffer, poison(box.buffer.dtype), copy.name),
            self.over(box, stamp, mark, copy.name),
        )

    def elements(self, copy: Copy) -> Stmt:
        """Replaces a padded copy by loops that assign one element at a time: the source's element, or the pad value
        if the element is outside of the source.
        """
        to, of = copy.destination, copy.source
        loops = [(self.names.var(f"{copy.name}.{d}"), e) for d, e in enumerate(to.extents) if e != _ONE]

        def place(region: Region) -> tuple[Expr, ...]:
            offsets = iter([var for var, _ in loops])
            pairs = zip(region.starts, region.extents, strict=True)
            return tuple([start if extent == _ONE else start + next(offsets) for start, extent in pairs])

        at = place(of)
        inside = [
            c
            for index, size in zip(at, of.buffer.shape, strict=True)
            for c in (index >= _ZERO, index < Const(size))
        ]
        assert copy.pad is not None
        value = select(all_of(*inside), Load(of.buffer, at), copy.pad)
        assign = Assign.to(copy.name, to.buffer[place(to)], value)
        return nest(loops, assign)

    def over(self, box: Region, buffer: Buffer, value: Expr, name: str) -> Stmt:
        """Loops that assign `value` to the elements of `buffer` in the region `box`. The assignment is named `name`."""
        loops: list[tuple[Var, Expr]] = []
        indices: list[Expr] = []
        for d, (start, extent) in enumerate(zip(box.starts, box.extents, strict=True)):
            if extent == _ONE:
                indices.append(start)
                continue
            var = self.names.var(f"{name}.{d}")
            loops.append((var, extent))
            indices.append(start + var)
        return nest(loops, Assign.to(name, buffer[tuple(indices)], value))

    def sweep(self, wait: Wait, places: Mapping[str, Expr] | None = None) -> Stmt:
        """Statements at a wait that move the data of completed copies from the shadows to their buffers. They move the
        copies of the thread with coordinates `places` (None: of all threads).
        """
        where = (_ZERO,) * len(self.committed.shape) if places is None else self.place(places)
        done = binary("-", self.committed[where], Const(wait.pending, DType.INT32))
        limit = binary("*", binary("+", done, Const(1, DType.INT32)), Const(self.count, DType.INT32))
        steps: list[Stmt] = []
        for buffer in self.late:
            shadow, stamp = self.shadows[buffer.name], self.stamps[buffer.name]
            loops = [(self.names.var(f"{buffer.name}.{d}"), size) for d, size in enumerate(buffer.shape)]
            at = tuple([var for var, _ in loops])
            mark = stamp[at]
            zero = Const(0, DType.INT32)
            lands = binary("and", binary("<", zero, mark), binary("<=", mark, limit))
            if places is not None:
                owner = binary("%", binary("-", mark, Const(1, DType.INT32)), Const(self.count, DType.INT32))
                lands = binary("and", lands, equal(owner, cast(self.number(places), DType.INT32)))
            new = select(lands, shadow[at], buffer[at])
            steps.append(
                nest(
                    loops,
                    seq(
                        Assign.to("land", buffer[at], new),
                        Assign.to("land", stamp[at], select(lands, zero, mark)),
                    ),
                )
            )
        return seq(*steps)
