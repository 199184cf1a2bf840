"""The pass `expand_copies`: copies of boxes (rectangles of elements) become loops of vector moves and fills, without
conditions in the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ...ir.affine import linear_form
from ...ir.bounds import Ranges, form_interval, loop_range
from ...ir.expr import Const, Expr, Load, Var, binary, cast, maximum, minimum
from ...ir.printer import summarize
from ...ir.simplify import simplify
from ...ir.stmt import Alloc, Assign, Copy, For, LoopKind, Program, Seq, Stmt, seq
from ...ir.verify import wide
from ...ir.visit import walk
from .errors import LoweringError
from .machine import CpuTarget

_ONE = Const(1)


def expand_copies(program: Program, target: CpuTarget) -> Program:
    """`program` with every Copy as loops.

    rewrite:
        c: copy T[0:6, 0:16] = A[y - 1:y + 5, 0:16] pad 0
    ->  for c.0.before in range(<rows above A>): for c.0.before.1 in vectorize(16): T[…] = 0
        for c.0 in range(<rows inside A>):       for c.1 in vectorize(16): T[…] = A[…]
        for c.0.after in range(<rows below A>):  for c.0.after.1 in vectorize(16): T[…] = 0
    Each padded dimension becomes up to three loops without conditions; the innermost loop moves whole vectors.
    Asynchronous copies are executed at once. Raises LoweringError for a copy within one buffer.
    """

    loops = [node.name for node in walk(program.body) if isinstance(node, For)]

    def visit(statement: Stmt, ranges: Ranges) -> Stmt:
        match statement:
            case For(var=var, extent=extent, body=body, kind=kind):
                inner = visit(body, {**ranges, var.name: loop_range(extent)})
                return For(var=var, extent=extent, body=inner, kind=kind)
            case Seq(statements=statements):
                return seq(*(visit(s, ranges) for s in statements))
            case Alloc(buffer=buffer, body=body):
                return Alloc(buffer=buffer, body=visit(body, ranges))
            case Copy():
                if statement.source.buffer.name == statement.destination.buffer.name:
                    raise LoweringError(
                        f"`{summarize(statement)}` copies within one buffer; copy through another buffer"
                    )
                # `split_copy` uses the loop name of this expansion.
                stem = statement.name
                while any(name.startswith(f"{stem}.") for name in loops):
                    stem += "'"
                return _Expansion(statement, ranges, target).run(stem)
        return statement

    return Program(name=program.name, parameters=program.parameters, body=visit(program.body, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A place inside the loop nest that replaces a copy.

    `offsets`: offset along each dimension of the copy (None: no loop over that dimension yet). `name`: name of the
    innermost loop or statement. `ranges`: ranges of the variables of the enclosing loops.
    """

    offsets: tuple[Expr | None, ...]
    name: str
    ranges: Ranges

    def named(self, suffix: str) -> _Place:
        """The same place, with `suffix` appended to the name."""
        return replace(self, name=self.name + suffix)


class _Expansion:
    """The expansion of one copy into loops."""

    def __init__(self, copy: Copy, ranges: Ranges, target: CpuTarget) -> None:
        self.copy = copy
        self.ranges = ranges
        self.lanes = target.lanes(copy.destination.buffer.dtype)
        to, of = copy.destination.extents, copy.source.extents
        # Dimensions of the copy: extent, index in the destination and in the source (None: no such dimension).
        alike = len(to) == len(of) and all((a == _ONE) == (b == _ONE) for a, b in zip(to, of, strict=True))
        self.extents: list[Expr] = list(to) if alike else wide(to)
        self.to: list[int | None] = [d for d, e in enumerate(to) if alike or e != _ONE]
        self.of: list[int] = [d for d, e in enumerate(of) if alike or e != _ONE]
        if not alike:
            # A single row of the source may also be padding; such dimensions have no counterpart in the
            # destination.
            single = [d for d, e in enumerate(of) if e == _ONE]
            self.extents = [*(_ONE for _ in single), *self.extents]
            self.to = [*(None for _ in single), *self.to]
            self.of = [*single, *self.of]

    def run(self, stem: str) -> Stmt:
        """Builds the loops that replace the copy; their names begin with `stem`."""
        return self.dimension(0, _Place(offsets=(None,) * len(self.extents), name=stem, ranges=self.ranges))

    def dimension(self, d: int, at: _Place) -> Stmt:
        """Loops over dimension `d` of the copied box and all inner dimensions. The caller guarantees that the indices
        in all outer dimensions are inside the source. Elements whose index in dimension `d` is outside of the source
        get the pad value.
        """
        if d == len(self.extents):
            return self.move(at)
        source, extent = self.copy.source, self.extents[d]
        start, size = source.starts[self.of[d]], source.buffer.shape[self.of[d]]
        here, ranges = at.named(f".{d}"), at.ranges
        if self.copy.pad is None or _within(start, extent, size, ranges):
            return self.loop(d, here, Const(0), extent, self.dimension)
        before = simplify(minimum(maximum(binary("-", 0, start), 0), extent), ranges)
        end = simplify(minimum(maximum(binary("-", size, start), before), extent), ranges)
        inside, after = _difference(end, before, ranges), _difference(extent, end, ranges)
        return seq(
            self.loop(d, here.named(".before"), Const(0), before, self.fill),
            self.loop(d, here, before, inside, self.dimension),
            self.loop(d, here.named(".after"), end, after, self.fill),
        )

    def fill(self, d: int, at: _Place) -> Stmt:
        """Loops over dimension `d` and all inner dimensions: they store the pad value in elements without a source."""
        if d == len(self.extents):
            assert self.copy.pad is not None
            value = cast(self.copy.pad, self.copy.destination.buffer.dtype)
            return self.assign(at.named(".fill"), value)
        return self.loop(d, at.named(f".{d}"), Const(0), self.extents[d], self.fill)

    def loop(
        self, d: int, at: _Place, start: Expr, extent: Expr, inside: Callable[[int, _Place], Stmt]
    ) -> Stmt:
        """A loop over `extent` elements of dimension `d`, beginning at element `start`. `inside` makes the loop's body.
        If `d` is the innermost dimension, the loop moves whole vectors, and a second loop moves the remaining elements.
        """
        if extent == Const(0):
            return Seq(statements=())

        def body(offset: Expr, around: Ranges, suffix: str = "") -> Stmt:
            new = (*at.offsets[:d], offset, *at.offsets[d + 1 :])
            return inside(d + 1, _Place(offsets=new, name=f"{at.name}{suffix}", ranges=around))

        if d == len(self.extents) - 2 and isinstance(extent, Const) and (width := self.whole_rows()):
            return self.rows(d, at, start, int(extent.value), width, inside)
        if d < len(self.extents) - 1:
            var = Var(at.name)
            inner = body(start + var, {**at.ranges, at.name: loop_range(extent)})
            return For(var=var, extent=extent, body=inner)
        most = self.extents[d]
        few = isinstance(most, Const) and most.value < self.lanes
        return self.vectors(extent, at, lambda element, *rest: body(start + element, *rest), few=few)

    def vectors(self, extent: Expr, at: _Place, body: Callable[..., Stmt], *, few: bool = False) -> Stmt:
        """Two loops over `extent` adjacent elements: the first moves whole vectors, the second the remaining elements.
        `body(element, ranges)` makes the statement for one element; `ranges` are the ranges of the loop variables. In
        the second loop `body` gets a third argument, the suffix of the statement's name.

        `few`: the caller knows that `extent` is less than a vector, so only the second loop is made.
        """
        name, ranges = at.name, at.ranges
        parts: list[Stmt] = []
        vectors = Const(0) if few else simplify(binary("//", extent, self.lanes), ranges)
        if vectors != Const(0):
            outer, lane = Var(f"{name}.vector"), Var(f"{name}.lane")
            around = {**ranges, outer.name: loop_range(vectors), lane.name: loop_range(Const(self.lanes))}
            inner = body(outer * self.lanes + lane, around)
            inner = For(var=lane, extent=Const(self.lanes), body=inner, kind="vectorize")
            parts.append(For(var=outer, extent=vectors, body=inner))
        rest = simplify(binary("-", extent, vectors * self.lanes), ranges)
        if rest != Const(0):
            var = Var(f"{name}.rest")
            element = simplify(vectors * self.lanes + var, ranges)
            kind: LoopKind = "vectorize" if isinstance(rest, Const) else "serial"
            inner = body(element, {**ranges, var.name: loop_range(rest)}, ".rest")
            parts.append(For(var=var, extent=rest, body=inner, kind=kind))
        return seq(*parts)

    def whole_rows(self) -> int:
        """Elements in a row, if source and destination have rows of equal length and only whole rows move; else 0."""
        to, of = self.to[-1], self.of[-1]
        boxes = [(self.copy.source, of), (self.copy.destination, to)]
        sizes = {box.buffer.shape[d] for box, d in boxes if d is not None and d == len(box.buffer.shape) - 1}
        whole = all(d is not None and box.starts[d] == Const(0) for box, d in boxes)
        return sizes.pop() if whole and len(sizes) == 1 and self.extents[-1] == Const(max(sizes)) else 0

    def rows(
        self, d: int, at: _Place, start: Expr, count: int, width: int, inside: Callable[[int, _Place], Stmt]
    ) -> Stmt:
        """Moves `count` contiguous rows of `width` elements, from row `start` on, as one run of elements. If `inside`
        is `fill`, the rows are filled instead. `d`: the dimension that counts rows; dimension `d` + 1 runs along a row.
        """
        end: Callable[[_Place], Stmt] = self.move
        if inside == self.fill:
            end = partial(self.fill, d + 2)

        def body(element: Expr, around: Ranges, suffix: str = "") -> Stmt:
            row = simplify(start + element // width, around)
            new = (*at.offsets[:d], row, simplify(element % width, around))
            return end(_Place(offsets=new, name=f"{at.name}{suffix}", ranges=around))

        return self.vectors(Const(count * width), at, body)

    def move(self, at: _Place) -> Stmt:
        """Copies one element (in a vector loop, one for each lane) whose indices are inside the source."""
        source = self.copy.source
        indices = list(source.starts)
        for d, offset in zip(self.of, at.offsets, strict=True):
            assert offset is not None
            index, size = simplify(indices[d] + offset, {}), source.buffer.shape[d]
            if self.copy.pad is not None and not _within(index, _ONE, size, at.ranges):
                # The loops around run only for indices inside, but interval analysis cannot show it.
                index = minimum(maximum(index, 0), size - 1)
            indices[d] = index
        value = cast(Load(source.buffer, tuple(indices)), self.copy.destination.buffer.dtype)
        return self.assign(at, value)

    def assign(self, at: _Place, value: Expr) -> Stmt:
        """Stores `value` into one element of the destination (in a vector loop, one for each lane)."""
        destination = self.copy.destination
        indices = list(destination.starts)
        for d, offset in zip(self.to, at.offsets, strict=True):
            if d is not None:
                assert offset is not None
                indices[d] = simplify(indices[d] + offset, {})
        return Assign(name=at.name, buffer=destination.buffer, indices=tuple(indices), value=value)


def _within(start: Expr, extent: Expr, size: int, ranges: Ranges) -> bool:
    """Whether indices `start` .. `start` + `extent` - 1 provably lie inside a buffer dimension of `size`."""
    low = form_interval(linear_form(start), ranges).low
    high = form_interval(linear_form(start).plus(linear_form(extent)), ranges).high
    return low is not None and low >= 0 and high is not None and high <= size


def _difference(a: Expr, b: Expr, ranges: Ranges) -> Expr:
    return simplify(binary("-", a, b), ranges)
