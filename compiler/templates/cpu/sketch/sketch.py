"""Search spaces for programs without a template, made by rules: multi-level tiles of every sum, vectors of every nest.

A sum is tiled together with its consumer, the nest that reads it: loops over blocks, then over tiles, then over a
tile's elements, which are summed in registers, whole or in partial sums (S S R S R S in Ansor's notation: S spatial
loops of the consumer, R reduction loops of the sum). The sum's operands may be packed, copied in panels (one for each
tile), or computed by their producers ahead or inline. This file defines the knobs, `sketch.cost` their cost model, and
`sketch.schedule` their schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import ceil, gcd, prod

from ....codegen.cpu.machine import CpuTarget
from ....ir.hash import structural_hash
from ....ir.stmt import Program, Reduce
from ....ir.visit import walk
from ....schedule import LegalityError, Schedule
from ...space import Axis
from ..loops import part_size
from ..register_tile import written_steps
from .nests import lanes_of
from .stages import Axle, Read, Stages, Sum, stages

TILE_VECTORS, TILE_ROWS = 8, 16
"""Longest tile along the vectorized loop, in vectors (half the registers if more), and along any other loop."""
BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""Candidate values of the knobs block.k: number of tiles per block along a loop."""
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Candidate values of the knob "part": the number of iterations of the outermost reduction loop in a partial sum,
before `even` changes it to cut the loop into nearly equal parts.
"""
UNROLLED = (1, 2, 4, 8, 16)
"""Candidate numbers of unrolled terms of a sum."""
MOST_WINDOW = 64
"""Largest window, in terms, for which complete unrolling of its sum is in the search space."""
PERMUTED = 3
"""Largest number of loops whose order is a knob; 3 loops have 6 orders."""
WHOLE, OUTERMOST, MIDDLE, INNERMOST, INLINE = range(5)
"""Values of the knob "producer", the place where a sum's producers are computed. WHOLE: before all loops. OUTERMOST,
INNERMOST: in the outermost or innermost loop around the sum. MIDDLE: in the innermost of the loops over blocks
(`middle`). INLINE: inside the sum; the tiles along borders are then separate kernels.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """A program to be scheduled without a template, with the analysis that sketch rules (rules that generate schedules)
    need.

    `constants`: parameters that never change and may be packed before any call (weights). `parallel`: loops run on the
    threads of the kernel's pool; the choice of these loops is no knob, because candidates are timed on one thread.
    `stages`: sums and nests of the program after `with_consumers`. `main`: the sum with the most work; None without
    sums. `axes`: the knobs.
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
        """The workload's key: equal for programs that differ in names only."""
        return structural_hash(self.program, alpha=True)

    def number(self, read: Read) -> int:
        """Number of the parameter that `read` reads, among the program's parameters; -1 for an intermediate, which is
        neither packed nor copied. Names of knobs contain this number: parameter names are not part of a workload.
        """
        names = [p.name for p in self.program.parameters]
        return names.index(read.buffer) if read.buffer in names else -1

    def lanes(self, bits: int) -> int:
        """Elements of `bits` bits in one vector register of the target (`nests.lanes_of`)."""
        return lanes_of(self.target, bits)


def find_sketches(
    program: Program,
    target: CpuTarget,
    *,
    constants: frozenset[str] = frozenset(),
    parallel: bool = False,
) -> Sketches:
    """The sketches of any tensor expression; arguments as in `Sketches`. Knobs:

    tile.k, block.k         for loop k of the main sum's consumer, counted from the outermost loop that repeats:
                            elements of a register tile, and tiles of a block (0: all)
    vector                  index in `candidates` of the loop that is vectorized
    order, outer            order of the loops over tiles, and over blocks
    terms                   order of the reduction loops (`term_orders`)
    part                    iterations of the outermost reduction loop in a partial sum (0: no partial sums)
    stored                  whether the sums of a block are in memory: a partial sum is added to all of them before
                            the next partial sum, so that its operands stay in the caches
    unroll                  largest number of unrolled terms
    producer                one of WHOLE … INLINE
    pack.p, copy.p          whether parameter number p is packed, or copied in panels
    nest.loop               for nests of no sum: index of the vectorized loop in `Nest.vectors`
    nest.vectors            vectors per iteration, and
    nest.unroll             unrolled iterations of the next loop, for these nests
    """
    found = stages(with_consumers(program).program)
    main = max(found.sums, key=lambda s: s.work, default=None)
    sketches = Sketches(
        program=program,
        target=target,
        constants=constants,
        parallel=parallel,
        stages=found,
        main=main,
        axes=(),
    )
    axes = [] if main is None else _axes_of_sum(sketches, main)
    nests = [nest for nest in found.nests if nest.vectors]
    if any(len(nest.vectors) > 1 for nest in nests):
        axes.append(Axis(name="nest.loop", values=(0, 1)))
    if any(not nest.ragged for nest in nests):
        axes.append(Axis(name="nest.vectors", values=(1, 2, 4, 8)))
    unrolled = any(nest.ragged or not nest.recurrent for nest in nests)
    if unrolled or not axes:
        # A program without choices has a space of one point.
        axes.append(Axis(name="nest.unroll", values=(1, 2, 4, 8) if unrolled else (1,)))
    return replace(sketches, axes=tuple(axes))


def with_consumers(program: Program) -> Schedule:
    """A schedule of the program in which sums do not accumulate in parameters: where legal, a sum accumulates in a new
    buffer, which is then copied to the parameter.
    """
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
    """Loops that may be vectorized: the innermost loop of the consumer (the nest that reads the sum), and the longest
    other loop with contiguous loads.
    """
    last = summed.axles[-1]
    reading = [a for a in summed.axles[:-1] if any(read.stride(a.inner) == 1 for read in summed.reads)]
    return (last, *sorted(reading, key=lambda a: -a.size)[:1])


def permuted(summed: Sum) -> tuple[str, ...]:
    """The loops whose order is a knob, outermost first: of the loops of the sum's consumer (the nest that reads the
    sum), the `PERMUTED` loops with the most iterations.
    """
    found = sorted(summed.axles, key=lambda a: -a.size)[:PERMUTED]
    return tuple([a.name for a in summed.axles if a in found])


def ordered(names: tuple[str, ...], chosen: tuple[str, ...], number: int) -> tuple[str, ...]:
    """`names` with the names `chosen` permuted among themselves by permutation `number`; all other names stay
    in place.
    """
    orders = tuple(permutations(chosen))
    order = iter(orders[number % len(orders)])
    return tuple([next(order) if name in chosen else name for name in names])


def term_orders(summed: Sum) -> tuple[tuple[str, ...], ...]:
    """Candidate orders of the reduction loops, outermost first: the program's order, orders that move one loop to the
    inside or to the outside, and `taps_first`. Loops of one iteration are always innermost.
    """
    short = tuple([t.name for t in summed.terms if t.size == 1])
    names = tuple([t.name for t in summed.terms if t.size > 1])
    found: list[tuple[str, ...]] = [names]
    found += [(*(n for n in names if n != last), last) for last in reversed(names)]
    found += [(first, *(n for n in names if n != first)) for first in reversed(names)]
    return tuple(dict.fromkeys([*[(*order, *short) for order in found], taps_first(summed)]))


def taps_first(summed: Sum) -> tuple[str, ...]:
    """The reduction loops, outermost first: loops over the taps of a window (each indexes a dimension together with a
    loop over output positions), then other loops, then loops of one iteration.
    """
    terms = {t.name for t in summed.terms}
    read = [{name for name, _ in steps} for read in summed.reads for steps in read.steps]
    taps = {name for names in read if names - terms for name in names & terms}
    # Stable: otherwise the order stays the same. Loops of one iteration come last.
    return tuple([t.name for t in sorted(summed.terms, key=lambda t: (t.size == 1, t.name not in taps))])


def order_of_terms(summed: Sum, number: int) -> tuple[str, ...]:
    """Order `number` of `term_orders`; the last order for a greater number."""
    orders = term_orders(summed)
    return orders[min(number, len(orders) - 1)]


def part_of(summed: Sum, order: tuple[str, ...], part: int) -> int:
    """Effective value of the knob value `part`: iterations of the outermost reduction loop (the first in `order`) in a
    partial sum, or 0 if there are no partial sums. A partial sum needs at least two terms, and the loop must have more
    iterations than one partial sum.
    """
    sizes = {t.name: t.size for t in summed.terms}
    least = 1 if any(sizes[name] > 1 for name in order[1:]) else 2
    first = next(sizes[name] for name in order)
    return part if least <= part < first else 0


def default_part(summed: Sum) -> int:
    """Iterations of the first reduction loop in a default partial sum (0: no partial sums)."""
    sizes = [t.size for t in summed.terms]
    depth, first = prod(sizes), next(size for size in sizes if size > 1 or max(sizes) == 1)
    return part_size(depth, depth // first) or 0


def unrolled_loops(summed: Sum, order: tuple[str, ...], part: int, most: int) -> tuple[tuple[str, int], ...]:
    """The reduction loops to unroll, the last of `order` first, and their unrolled iterations: at most `most` terms.

    The outermost of these loops may be unrolled in part, by a number that divides its iterations (or `part`, if partial
    sums of `part` iterations cut the loop).
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


def middle(blocks: int, tiles: int) -> int:
    """Position of the loop, 0 for the outermost, in which a producer with the knob value MIDDLE is computed. `blocks`
    loops over blocks enclose `tiles` loops over tiles. The result is the innermost loop over blocks, or, without
    blocks, the middle one of the loops over tiles.
    """
    return blocks - 1 if blocks else (tiles - 1) // 2


def packable(sketches: Sketches, summed: Sum) -> tuple[Read, ...]:
    """Reads of `summed` whose buffer may be packed, or copied in panels (one for each tile): parameters that the sum
    reads once, with affine indices. A reduction loop and a loop that may be vectorized must index different dimensions.

    If the program has several sums, the result has only reads of constants by the main sum.
    """
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

    # Several sums would each copy different panels, and packed constants have the order of the main sum.
    alone, main = len(sketches.stages.sums) == 1, summed is sketches.main
    reads = [read for read in summed.reads if alone or (main and read.buffer in sketches.constants)]
    return tuple([read for read in reads if seen.count(read.buffer) == 1 and fits(read)])


def _axes_of_sum(sketches: Sketches, summed: Sum) -> list[Axis]:
    n = sketches.lanes(summed.bits)
    vectors = candidates(summed)
    axes: list[Axis] = []
    for number, axle in enumerate(summed.axles):
        sizes = {even(axle.size, t) for t in range(1, TILE_ROWS + 1)}
        if axle in vectors:
            longest = max(TILE_VECTORS, sketches.target.vector_registers // 2)
            sizes |= {min(n * k, axle.size) for k in range(1, longest + 1)}
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
        parts = {even(longest, p) for p in PARTS if p < longest}
        # The default partial sum, and a multiple of the default's unrolled steps below it.
        part = part_size(longest) or longest
        parts = (parts | {part, part - part % written_steps(sketches.target, longest)}) - {longest}
        parts |= {default_part(summed)} - {0}
        axes.append(Axis(name="part", values=(0, *sorted(parts))))
        if len(sketches.stages.sums) == 1:
            axes.append(Axis(name="stored", values=(0, 1)))
        window = prod(t.size for t in summed.terms) if len(term_orders(summed)) > 1 else 0
        whole = (window,) if UNROLLED[-1] < window <= MOST_WINDOW else ()
        axes.append(Axis(name="unroll", values=(*UNROLLED, *whole)))
    if summed.producers and len(sketches.stages.sums) == 1:
        axes.append(Axis(name="producer", values=(WHOLE, OUTERMOST, MIDDLE, INNERMOST, INLINE)))
    for read in packable(sketches, summed):
        kind = "pack" if read.buffer in sketches.constants else "copy"
        axes.append(Axis(name=f"{kind}.{sketches.number(read)}", values=(0, 1)))
    return axes


def even(size: int, piece: int) -> int:
    """Size of the largest part when `size` is cut into the fewest parts of at most `piece` each, of almost equal size:
    even(9, 4) is 3 (3 parts).
    """
    return ceil(size / ceil(size / piece))
