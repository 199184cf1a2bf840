"""Spaces for programs without a template: multi-level tiles of every sum, vectors of every nest, made by rules.

A sum is tiled as its consumer is: loops over blocks, then over tiles, then over a tile's elements, which are summed up
in registers, whole or in parts (S S R S R S in the letters of Ansor, where S are loops of the consumer and R those of
the sum). What it reads may be packed, copied in panels, padded ahead or inline. This file says which choices there are;
`sketch.cost` what is known of them without scheduling any, `sketch.schedule` what they do to a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import ceil, gcd

from ....codegen.cpu.machine import CpuTarget
from ....ir.hash import structural_hash
from ....ir.stmt import Program, Reduce
from ....ir.visit import walk
from ....schedule import LegalityError, Schedule
from ...space import Axis
from .stages import Axle, Read, Stages, Sum, stages

TILE_VECTORS, TILE_ROWS = 8, 16
"""The longest tile of the vectorized loop in vectors, and of any other in iterations."""
BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""Tiles of a block."""
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Iterations of the outermost reduction loop in a partial sum, before they are evened out."""
UNROLLED = (1, 2, 4, 8, 16)
"""Candidate numbers of unrolled terms of a sum."""
PERMUTED = 3
"""Loops whose order is open; 3 have 6 orders."""
WHOLE, OUTERMOST, MIDDLE, INNERMOST, INLINE = range(5)
"""Places at which a sum's producers are computed: before all loops, in one of the loops around the sum, or inline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """A program to be scheduled without a template, with the analysis that sketch rules need.

    `constants` are the parameters that never change and may be packed before any call (weights); `parallel`: loops run
    on the threads of the kernel's pool; which ones is no knob, as candidates are timed on one. `stages` are those of
    the program as `with_consumers` leaves it, `main` the sum with the most work (None: there is no sum), `axes` the
    knobs.
    """

    program: Program
    target: CpuTarget
    constants: frozenset[str]
    parallel: bool
    stages: Stages
    main: Sum | None
    axes: tuple[Axis, ...]

    @property
    def key(self) -> str:
        """The workload: equal for programs that differ in names only."""
        return structural_hash(self.program, alpha=True)

    def number(self, read: Read) -> int:
        """The position of the parameter that is read: names are no part of a workload."""
        return [p.name for p in self.program.parameters].index(read.buffer)

    def lanes(self, bits: int) -> int:
        """Elements of that size in one vector register; no fewer than 32 bits are computed with."""
        return max(1, self.target.vector_bits // max(32, bits))


def sketches(
    program: Program,
    target: CpuTarget,
    *,
    constants: frozenset[str] = frozenset(),
    parallel: bool = False,
) -> Sketches:
    """The sketches of any tensor expression; arguments as of `Sketches`.

    For loop k of the main sum's consumer, counted from the outermost one that repeats, there are axes `tile.k`,
    elements of a register tile, and `block.k`, tiles of a block (0: all). `vector`: which of these loops runs in
    vectors (`candidates`); `order` and `outer`: the order of the loops over tiles and over blocks; `terms`: that of the
    reduction (`term_orders`); `part`: iterations of its outermost loop after which a partial sum joins the others
    (0: never); `unroll`: terms written out at most; `producer`: one of WHOLE … INLINE; `pack.p`, `copy.p`: whether
    parameter number p is packed, or copied in panels. For all other nests `nest.loop`, the loop that runs in vectors,
    `nest.vectors` of them at once, and `nest.unroll`, steps written out.
    """
    found = stages(with_consumers(program).program)
    main = max(found.sums, key=lambda s: s.work, default=None)
    given = Sketches(
        program=program,
        target=target,
        constants=constants,
        parallel=parallel,
        stages=found,
        main=main,
        axes=(),
    )
    axes = [] if main is None else _axes_of_sum(given, main)
    nests = [nest for nest in found.nests if nest.vectors]
    if any(len(nest.vectors) > 1 for nest in nests):
        axes.append(Axis(name="nest.loop", values=(0, 1)))
    if any(not nest.ragged for nest in nests):
        axes.append(Axis(name="nest.vectors", values=(1, 2, 4, 8)))
    if nests or not axes:
        # Where there is nothing to choose, there is one point.
        axes.append(Axis(name="nest.unroll", values=(1, 2, 4, 8) if nests else (1,)))
    return Sketches(
        program=program,
        target=target,
        constants=constants,
        parallel=parallel,
        stages=found,
        main=main,
        axes=tuple(axes),
    )


def with_consumers(program: Program) -> Schedule:
    """A schedule in which no sum goes straight to a parameter: where it may, it gets a buffer, and a copy behind it."""
    s = Schedule(program)
    parameters = {p.name for p in program.parameters}
    for node in walk(program):
        if isinstance(node, Reduce) and node.buffer.name in parameters and node.first is not None:
            try:
                copy = s.cache_write(node.buffer.name, None, "workspace")
            except LegalityError:
                continue
            s.expand_copy(copy)
    return s


def candidates(summed: Sum) -> tuple[Axle, ...]:
    """The loops that may be vectorized: along contiguous stores, and the longest one along contiguous loads."""
    last = summed.axles[-1]
    reading = [a for a in summed.axles[:-1] if any(read.stride(a.inner) == 1 for read in summed.reads)]
    return (last, *sorted(reading, key=lambda a: -a.size)[:1])


def permuted(summed: Sum) -> tuple[str, ...]:
    """The consumer's loops whose order is open: those with the most iterations."""
    found = sorted(summed.axles, key=lambda a: -a.size)[:PERMUTED]
    return tuple([a.name for a in summed.axles if a in found])


def ordered(names: tuple[str, ...], chosen: tuple[str, ...], number: int) -> tuple[str, ...]:
    """`names` with those `chosen` among themselves in their order number `number`; the others keep their places."""
    orders = tuple(permutations(chosen))
    order = iter(orders[number % len(orders)])
    return tuple([next(order) if name in chosen else name for name in names])


def term_orders(summed: Sum) -> tuple[tuple[str, ...], ...]:
    """The orders of the reduction loops that may pay, outermost first: each loop as the innermost and outermost one.

    Loops of one iteration come last.
    """
    short = tuple([t.name for t in summed.terms if t.size == 1])
    names = tuple([t.name for t in summed.terms if t.size > 1])
    found: list[tuple[str, ...]] = [names]
    found += [(*(n for n in names if n != last), last) for last in reversed(names)]
    found += [(first, *(n for n in names if n != first)) for first in reversed(names)]
    return tuple(dict.fromkeys([(*order, *short) for order in found]))


def order_of_terms(summed: Sum, number: int) -> tuple[str, ...]:
    """One of `term_orders`, the last one for a greater number."""
    orders = term_orders(summed)
    return orders[min(number, len(orders) - 1)]


def part_of(summed: Sum, order: tuple[str, ...], part: int) -> int:
    """Iterations of the outermost reduction loop in a partial sum; 0 where there are no parts.

    A part of a single term is none.
    """
    sizes = {t.name: t.size for t in summed.terms}
    least = 1 if any(sizes[name] > 1 for name in order[1:]) else 2
    first = next(sizes[name] for name in order)
    return part if least <= part < first else 0


def written_out(summed: Sum, order: tuple[str, ...], part: int, most: int) -> tuple[tuple[str, int], ...]:
    """The reduction loops that are written out, innermost first, with the steps of each: at most `most` in all.

    The last of them may be a piece of its loop, one that divides it (and the part of it that is summed up apart).
    """
    sizes = {t.name: t.size for t in summed.terms}
    found: list[tuple[str, int]] = []
    for name in reversed([name for name in order if sizes[name] > 1]):
        size = sizes[name]
        if name == order[0] and part:
            size = gcd(size, part)
        elif size <= most and name != order[0]:
            found.append((name, size))
            most //= size
            continue
        piece = max(d for d in range(1, min(most, size) + 1) if size % d == 0)
        if piece > 1:
            found.append((name, piece))
        break
    return tuple(found)


def packable(given: Sketches, summed: Sum) -> tuple[Read, ...]:
    """Reads that may be packed, or copied in panels: of parameters read once, in vectors, with affine indices."""
    inner = {a.inner for a in candidates(summed)}
    terms = {t.name for t in summed.terms}
    seen = [read.buffer for read in summed.reads]

    def fits(read: Read) -> bool:
        by_dimension = [{name for name, _ in steps} for steps in read.steps]
        mixed = any(names & terms and names - terms for names in by_dimension)
        return (
            read.parameter
            and read.plain
            and not mixed
            and bool(read.loops() & inner and read.loops() & terms)
        )

    if len(given.stages.sums) == 1:
        return tuple([read for read in summed.reads if seen.count(read.buffer) == 1 and fits(read)])
    # Each of several sums would copy other panels; constants packed ahead have the order of the main sum.
    return tuple(
        [
            read
            for read in summed.reads
            if summed is given.main
            and read.buffer in given.constants
            and seen.count(read.buffer) == 1
            and fits(read)
        ]
    )


def _axes_of_sum(given: Sketches, summed: Sum) -> list[Axis]:
    n = given.lanes(summed.bits)
    vectors = candidates(summed)
    axes: list[Axis] = []
    for number, axle in enumerate(summed.axles):
        sizes = {even(axle.size, t) for t in range(1, TILE_ROWS + 1)}
        if axle in vectors:
            sizes |= {min(n * k, axle.size) for k in range(1, TILE_VECTORS + 1)}
        axes.append(Axis(name=f"tile.{number}", values=tuple(sorted(sizes))))
        counts = [c for c in BLOCKS if c < axle.size]
        axes.append(Axis(name=f"block.{number}", values=(0, *counts)))
    if len(vectors) > 1:
        axes.append(Axis(name="vector", values=tuple(range(len(vectors)))))
    if (orders := len(list(permutations(permuted(summed))))) > 1:
        axes += [Axis(name=name, values=tuple(range(orders))) for name in ("order", "outer")]
    if (count := len(term_orders(summed))) > 1:
        axes.append(Axis(name="terms", values=tuple(range(count))))
    longest = max(t.size for t in summed.terms)
    if longest > 1:
        parts = {even(longest, p) for p in PARTS if p < longest} - {longest}
        axes.append(Axis(name="part", values=(0, *sorted(parts))))
        axes.append(Axis(name="unroll", values=UNROLLED))
    if summed.producers and len(given.stages.sums) == 1:
        axes.append(Axis(name="producer", values=(WHOLE, OUTERMOST, MIDDLE, INNERMOST, INLINE)))
    for read in packable(given, summed):
        kind = "pack" if read.buffer in given.constants else "copy"
        axes.append(Axis(name=f"{kind}.{given.number(read)}", values=(0, 1)))
    return axes


def even(size: int, piece: int) -> int:
    """The piece that cuts `size` into as many parts as `piece` does, as evenly as can be."""
    return ceil(size / ceil(size / piece))
