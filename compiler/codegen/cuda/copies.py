"""Emits the part of a copy that one thread makes. A copy moves a box (a rectangular part of an array) in vectors as
wide as the alignment allows, synchronously or asynchronously. For elements outside of the source it writes the pad
value.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from ...ir.affine import LinearForm, linear_form
from ...ir.bounds import form_interval, loop_range
from ...ir.expr import Const, Expr, Var
from ...ir.printer import summarize
from ...ir.simplify import simplify, simplify_form
from ...ir.stmt import Copy, Region
from ...ir.types import DType
from ...ir.verify import wide
from .errors import LoweringError
from .indices import index, positive
from .storage import power_of_two
from .text import AND, PRODUCT, SUM, Text, call, conjunction

if TYPE_CHECKING:
    from .statements import KernelEmitter

ASYNCHRONOUS_BYTES = (4, 8, 16)
"""Sizes in bytes that one asynchronous copy of a thread may have (PTX ISA, "cp.async")."""
_UNROLLED = 16
"""The loops of a copy are unrolled if one thread makes at most this many moves. A move takes one vector of elements."""
_ONE = Const(1)


def emit_copy(kernel: KernelEmitter, copy: Copy) -> None:
    """Emits the moves of a copy, in loops if there are several. Each move takes one vector of elements.

    An asynchronous copy becomes a synchronous copy with the same result in four cases: the hardware has no asynchronous
    copies, the elements are too narrow or not aligned, the copy converts elements, or the pad is not zero. Raises
    LoweringError for asynchronous copies other than from global to shared memory.
    """
    _Move(kernel, copy).emit()


@dataclass(slots=True)
class _Dimension:
    """A dimension along which a copied box has more than one element. `extent`: number of elements along the dimension.
    `to`: index of the dimension in the destination array. `of`: index of the dimension in the source array.
    """

    extent: Expr
    to: int
    of: int


class _Move:
    """Emits one copy, as one thread executes it."""

    def __init__(self, kernel: KernelEmitter, copy: Copy) -> None:
        self.kernel, self.values, self.copy = kernel, kernel.values, copy
        self.to = self.values.storages[copy.destination.buffer.name]
        self.of = self.values.storages[copy.source.buffer.name]
        self.element_bytes = copy.source.buffer.dtype.bits // 8
        self.asynchronous = (
            kernel.asynchronous
            and copy.asynchronous
            and copy.source.buffer.dtype is copy.destination.buffer.dtype
            and (copy.pad is None or copy.pad.value == 0)
        )
        if copy.asynchronous:
            self.check_asynchronous()
        ranges = self.values.ranges
        pairs = zip(
            _positions(copy.destination), _positions(copy.source), wide(copy.destination.extents), strict=True
        )
        self.dimensions = [_Dimension(simplify(extent, ranges), to, of) for to, of, extent in pairs]

    def check_asynchronous(self) -> None:
        copy = self.copy
        if self.of.space != "global" or self.to.space != "shared":
            raise LoweringError(
                f"`{summarize(copy)}` is asynchronous, but a copy from {self.of.space} to {self.to.space} cannot be; "
                "make the copy synchronous"
            )

    def emit(self) -> None:
        """Emits the loops of the copy, and the move inside them."""
        outer, lanes = self.dimensions, 1
        run = outer[-1] if outer else None
        if run is not None and isinstance(run.extent, Const) and self.contiguous(run):
            lanes = self.lanes(run, int(run.extent.value))
        loops: list[tuple[str, Expr, int, _Dimension]] = []
        count: int | None = 1
        for d, dimension in enumerate(outer):
            step = lanes if dimension is run else 1
            extent = dimension.extent
            if isinstance(extent, Const):
                extent = Const(int(extent.value) // step)
            if extent == _ONE:
                continue
            loops.append((f"{self.copy.name}.{d}", extent, step, dimension))
            count = count * int(extent.value) if count is not None and isinstance(extent, Const) else None
        # Only buffers with constant indices can be in registers.
        registers = "register" in (self.to.space, self.of.space)
        unrolled = count is not None and (registers or count <= _UNROLLED)
        with self.kernel.scope():
            self.nest(loops, 0, unrolled, {}, lanes)

    def nest(
        self,
        loops: list[tuple[str, Expr, int, _Dimension]],
        depth: int,
        unrolled: bool,
        offsets: dict[int, Expr],
        lanes: int,
    ) -> None:
        if depth == len(loops):
            self.move(offsets, lanes)
            return
        wanted, extent, step, dimension = loops[depth]
        name = self.kernel.names.make(wanted)
        end = index(self.values, linear_form(extent)).text.within(SUM)
        # A name that no loop of the program has.
        var = Var(f"{name}'")
        self.values.ranges[var.name] = loop_range(extent)
        self.values.variables[var.name] = name
        offsets = {**offsets, id(dimension): var * step}
        if unrolled:
            self.kernel.unroll()
        with self.kernel.source.block(self.values.dialect.counted(DType.INT32, name, end)):
            self.nest(loops, depth + 1, unrolled, offsets, lanes)

    def contiguous(self, run: _Dimension) -> bool:
        """Whether source and destination have the same element type, and elements that are adjacent along dimension
        `run` of the copied box (rectangular part of an array) are adjacent in the memory of both.
        """
        same = self.copy.source.buffer.dtype is self.copy.destination.buffer.dtype
        return same and self.to.strides[run.to] == 1 and self.of.strides[run.of] == 1

    def lanes(self, run: _Dimension, extent: int) -> int:
        """The number of elements, out of `extent` elements along dimension `run`, that one move copies."""
        most = power_of_two(extent, extent, self.element_bytes)
        for storage, region in ((self.to, self.copy.destination), (self.of, self.copy.source)):
            most = storage.vector_elements(self.values.offset(region.buffer, region.starts), most)
            for d in self.dimensions[:-1]:
                stride = storage.strides[d.to if storage is self.to else d.of]
                most = power_of_two(gcd(stride, most), most, self.element_bytes)
        if not self.values.dialect.vector or (self.of.space == "register" and self.to.space == "register"):
            return 1
        while most > 1 and not self.whole(run, most):
            most //= 2
        return most

    def whole(self, run: _Dimension, lanes: int) -> bool:
        """Whether moves of `lanes` elements along dimension `run` need no test of single elements. This is so if each
        move is entirely inside or entirely outside the source. It is also so for asynchronous moves that cross only the
        end of the source: they write zeros beyond the end.
        """
        if self.copy.pad is None:
            return True
        region = self.copy.source
        size = region.buffer.shape[run.of]
        start = simplify_form(region.starts[run.of], self.values.ranges)
        if self.within(start, int(getattr(run.extent, "value", 0)), size):
            return True
        divides = size % lanes == 0 and gcd(start.constant, *start.terms.values()) % lanes == 0
        if divides:
            return True
        # An asynchronous copy can fill its last bytes with zeros, but not its first ones.
        low = form_interval(start, self.values.ranges).low
        return self.moves_asynchronously(lanes) and low is not None and low >= 0

    def within(self, start: LinearForm, extent: int, size: int) -> bool:
        """Whether `extent` indices from `start` on are provably inside a dimension of `size`."""
        held = form_interval(start, self.values.ranges)
        return held.low is not None and held.low >= 0 and held.high is not None and held.high + extent <= size

    def moves_asynchronously(self, lanes: int) -> bool:
        """Whether the hardware has an asynchronous copy of `lanes` elements."""
        return self.asynchronous and lanes * self.element_bytes in ASYNCHRONOUS_BYTES

    def move(self, offsets: dict[int, Expr], lanes: int) -> None:
        """Emits one move of `lanes` elements. `offsets`: maps the `id` of a dimension to the distance of the move's
        first element from the start of the copied box.
        """
        copy, values = self.copy, self.values
        to, of = list(copy.destination.starts), list(copy.source.starts)
        for d in self.dimensions:
            if (offset := offsets.get(id(d))) is not None:
                to[d.to], of[d.of] = to[d.to] + offset, of[d.of] + offset
        inside, left = self.conditions(of, lanes)
        target = values.offset(copy.destination.buffer, tuple(to))
        source = values.offset(copy.source.buffer, tuple(of))
        if self.moves_asynchronously(lanes):
            self.asynchronous_move(target, source, inside, left, lanes)
            return
        destination, origin = copy.destination.buffer, copy.source.buffer
        if lanes == 1:
            value = values.element(origin, tuple(of))
            pad = None if copy.pad is None else values.dialect.literal(copy.pad.value, origin.dtype)
            if pad is not None and origin.dtype in (DType.FLOAT16, DType.BFLOAT16):
                pad = values.narrowed(
                    values.dialect.literal(copy.pad.value if copy.pad is not None else 0, DType.FLOAT32),
                    origin.dtype,
                )
            value = self.guarded(inside, value, pad)
            if destination.dtype is not origin.dtype:
                value = values.dialect.converted(destination.dtype, value)
            self.kernel.source.line(values.dialect.stored(self.to, values.offset_text(target), value))
            return
        vector, dialect = values.vector(origin.dtype, lanes), values.dialect
        for storage in (self.to, self.of):
            if storage.space == "register":
                self.kernel.aligned.add(storage.buffer.name)
        value = Text(
            f"*({dialect.pointer(vector, self.of.space, const=True)}){values.pointer(origin, source)}", 15
        )
        pad = None
        if copy.pad is not None:
            one = values.emit(copy.pad).text
            braces = dialect.zeros if copy.pad.value == 0 else f"{{{{{', '.join([one] * lanes)}}}}}"
            pad = Text(dialect.compound.format(vector) + braces)
        value = self.guarded(inside, value, pad)
        place = f"({dialect.pointer(vector, self.to.space)}){values.pointer(destination, target)}"
        self.kernel.source.line(f"*{place} = {value.text};")

    def asynchronous_move(
        self, target: LinearForm, source: LinearForm, inside: list[Text], left: Text | None, lanes: int
    ) -> None:
        """Emits one asynchronous copy of `lanes` elements from `source` to `target`. If any of the conditions `inside`
        is false, the copy writes zeros only.

        `left`: number of elements that remain in the source's row; the copy writes zeros in place of further elements.
        None: the row contains all elements of the copy.
        """
        values, size = self.values, lanes * self.element_bytes
        count = values.dialect.integer(size)
        if left is not None:
            rest = values.dialect.operated("*", PRODUCT, left, values.dialect.integer(self.element_bytes))
            count = call("min", values.dialect.integer(size), rest)
            # A move that begins after the end copies nothing.
            count = call("max", values.dialect.integer(0), count)
        count = self.guarded(inside, count, values.dialect.integer(0))
        name = f"copy_async_{size}"
        values.used.add(name)
        to = values.pointer(self.copy.destination.buffer, target)
        of = values.pointer(self.copy.source.buffer, source)
        self.kernel.source.line(f"{name}({to}, {of}, {count.text});")

    def conditions(self, of: list[Expr], lanes: int) -> tuple[list[Text], Text | None]:
        """Returns (conditions, elements left) for a move of `lanes` elements from the source indices `of`.

        The move goes along a row of the source. If all conditions are true, no index is negative, and the move can
        leave the source only at the end of the row. If the move may go beyond this end, the second value is the number
        of elements left in the row (0 or less if the move begins beyond the end). Otherwise the second value is None.
        """
        conditions: list[Text] = []
        left: Text | None = None
        if self.copy.pad is None:
            return conditions, left
        ranges = self.values.ranges
        run = self.dimensions[-1].of if self.dimensions and lanes > 1 else None
        for d, at in enumerate(of):
            size = self.copy.source.buffer.shape[d]
            form = simplify_form(at, ranges)
            extent = lanes if d == run else 1
            conditions += positive(self.values, form.offset(1))
            beyond = form.times(-1).offset(size)
            high = form_interval(form, ranges).high
            if high is not None and high + extent <= size:
                continue
            divides = size % extent == 0 and gcd(form.constant, *form.terms.values()) % extent == 0
            if extent == 1 or divides:
                conditions += positive(self.values, beyond)
            else:
                rest = index(self.values, beyond)
                left = self.values.dialect.converted(DType.INT32, rest.text) if rest.wide else rest.text
        return conditions, left

    def guarded(self, conditions: list[Text], value: Text, otherwise: Text | None) -> Text:
        """The text of an expression with the value `value` if all conditions are true, else `otherwise` (None: always
        `value`).
        """
        if not conditions or otherwise is None:
            return value
        test = conditions[0] if len(conditions) == 1 else Text(conjunction(conditions), AND)
        return self.values.dialect.chosen(test, value, otherwise)


def _positions(region: Region) -> list[int]:
    """The numbers of the dimensions of a region along which the region has more than one element."""
    return [d for d, extent in enumerate(region.extents) if extent != _ONE]
