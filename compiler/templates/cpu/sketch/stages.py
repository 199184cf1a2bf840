"""Analysis of programs for sketch rules (rules that generate schedules): sums, their consumers, and other nests.

A sum is a Reduce into an allocation that a single later nest, its consumer, reads element by element: it can be summed
in registers, one tile of the consumer at a time. Any other statement is in a nest of loops, one of which may be
vectorized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ....codegen.cpu.intrinsics import DOT_DEPTH, DOT_LANES
from ....codegen.cpu.machine import CpuTarget
from ....ir.affine import linear_form
from ....ir.expr import Const, Expr, Load, Var
from ....ir.stmt import Assign, Copy, For, Program, Reduce, Stmt
from ....ir.types import DType
from ....ir.visit import expressions, walk, walk_expr
from ....schedule.legality import starting_loops, touches
from .nests import Nest, NestFinder, Term, chain_of, lanes_of, size_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Axle:
    """One spatial dimension of a sum: `name`, a loop of the sum's consumer (the nest that reads the sum) with `size`
    iterations, and `inner`, the loop of the sum along the same dimension.
    """

    name: str
    inner: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A sum's read of a buffer. `steps`: for each dimension of the buffer, the coefficients of the sum's loops in the
    index.

    `plain`: every index is a linear form of loop variables plus a constant.
    """

    buffer: str
    shape: tuple[int, ...]
    dtype: DType
    parameter: bool
    steps: tuple[tuple[tuple[str, int], ...], ...]
    plain: bool

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return self.dtype.bits

    def loops(self) -> set[str]:
        """Names of the loops on which the read element depends."""
        return {name for steps in self.steps for name, _ in steps}

    def stride(self, loop: str) -> int:
        """Distance, in elements of the buffer, between successive iterations of a loop."""
        stride, step = 0, 1
        for steps, length in zip(reversed(self.steps), reversed(self.shape), strict=True):
            stride += step * dict(steps).get(loop, 0)
            step *= length
        return stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The Reduce statement `name` into `buffer`. Its consumer (the nest that reads the sum) has the loops `axles`
    (outermost first, one for each dimension of the sum) and `others`.

    `terms`: reduction loops of the sum. `beside`: the sum's loops that are neither reduction loops nor axles. `reads`:
    its loads. `producers`: statements that may be computed in the loops of the sum, each with the name of the
    allocation that it writes. The sum reads this allocation, and no other statement writes it.
    """

    name: str
    buffer: str
    bits: int
    axles: tuple[Axle, ...]
    others: tuple[Term, ...]
    terms: tuple[Term, ...]
    beside: tuple[Term, ...]
    reads: tuple[Read, ...]
    producers: Mapping[str, str]

    @property
    def work(self) -> int:
        """Number of terms that the sum adds, over all of its elements."""
        loops = (*self.axles, *self.terms, *self.beside)
        return prod(loop.size for loop in loops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """All sums and nests of a program, in program order.

    `around`: the loops that contain several sums or nests. `chains`: for each outermost loop among these, (name,
    iterations) of the loop itself and of the loops perfectly nested in it, outermost first.
    """

    sums: tuple[Sum, ...]
    nests: tuple[Nest, ...]
    around: tuple[str, ...]
    chains: tuple[tuple[tuple[str, int], ...], ...]


def stages(program: Program) -> Stages:
    """The sums and nests of a program. Copy statements are left out: they need no schedule, since targets can copy
    boxes (rectangles of elements).
    """
    finder = _Finder(program)
    finder.visit(program.body)
    return Stages(
        sums=tuple(finder.sums),
        nests=tuple(finder.nests),
        around=tuple(finder.around),
        chains=tuple(finder.chains),
    )


class _Finder(NestFinder):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.parameters = {p.name for p in program.parameters}
        self.writers: dict[str, list[str]] = {}
        for s in walk(program):
            if isinstance(s, Assign | Reduce):
                self.writers.setdefault(s.buffer.name, []).append(s.name)
            elif isinstance(s, Copy):
                self.writers.setdefault(s.destination.buffer.name, []).append(s.name)
        self.sums: list[Sum] = []

    def sequence(self, statements: Sequence[Stmt], loops: tuple[For, ...]) -> None:
        """Adds the sums among the consecutive `statements`, and visits all other statements."""
        taken: set[int] = set()
        for k, statement in enumerate(statements):
            if k in taken:
                continue
            found = self.sum_at(statements, k)
            if found is None:
                self.visit(statement, loops)
            else:
                self.sums.append(found[0])
                taken.add(found[1])

    def sum_at(self, statements: Sequence[Stmt], k: int) -> tuple[Sum, int] | None:
        """The sum that statement `k` computes, and the index in `statements` of its consumer (the nest that reads the
        sum); None if the statement is no sum, or is not read by exactly one such nest, element by element.
        """
        chain, leaf = chain_of(statements[k])
        if not isinstance(leaf, Reduce) or leaf.first is None or leaf.buffer.name in self.parameters:
            return None
        if self.writers[leaf.buffer.name] != [leaf.name]:
            return None
        own = starting_loops(leaf.first)
        users = [i for i, s in enumerate(statements) if i != k and leaf.buffer.name in touches(s)]
        if not own or len(users) != 1 or users[0] < k:
            return None
        around, consumer = chain_of(statements[users[0]])
        if any(isinstance(s, For) for s in walk(consumer)):
            return None
        if not all(isinstance(n.extent, Const) and n.extent.value >= 1 for n in (*chain, *around)):
            return None
        reads = {
            e.indices
            for s in walk(consumer)
            for top in expressions(s)
            for e in walk_expr(top)
            if isinstance(e, Load) and e.buffer.name == leaf.buffer.name
        }
        pairs = _pairs(leaf, reads, {n.name for n in chain} - own, {n.name for n in around})
        if not pairs:
            return None
        sizes = {n.name: size_of(n) for n in chain}
        axles = tuple(
            [
                Axle(name=n.name, inner=pairs[n.name], size=size_of(n))
                for n in around
                if n.name in pairs and size_of(n) > 1
            ]
        )
        if not axles or any(sizes[a.inner] != a.size for a in axles):
            return None
        names = {a.name for a in axles}
        inner = {a.inner for a in axles}
        return (
            Sum(
                name=leaf.name,
                buffer=leaf.buffer.name,
                bits=leaf.buffer.dtype.bits,
                axles=axles,
                others=_terms([n for n in around if n.name not in names]),
                terms=_terms([n for n in chain if n.name in own]),
                beside=_terms([n for n in chain if n.name not in own and n.name not in inner]),
                reads=self.reads(leaf, sizes),
                producers=self.producers(leaf),
            ),
            users[0],
        )

    def reads(self, leaf: Reduce, sizes: dict[str, int]) -> tuple[Read, ...]:
        found: dict[Load, Read] = {}
        for e in walk_expr(leaf.value):
            if not isinstance(e, Load) or e in found:
                continue
            forms = [linear_form(i).terms for i in e.indices]
            steps = [[(a.name, c) for a, c in form.items() if isinstance(a, Var)] for form in forms]
            found[e] = Read(
                buffer=e.buffer.name,
                shape=e.buffer.shape,
                dtype=e.buffer.dtype,
                parameter=e.buffer.name in self.parameters,
                steps=tuple([tuple([item for item in own if item[0] in sizes]) for own in steps]),
                plain=all(isinstance(a, Var) for form in forms for a in form),
            )
        return tuple(found.values())

    def producers(self, leaf: Reduce) -> dict[str, str]:
        read = dict.fromkeys(e.buffer.name for e in walk_expr(leaf.value) if isinstance(e, Load))
        made = {name: self.writers.get(name, []) for name in read if name not in self.parameters}
        return {writers[0]: name for name, writers in made.items() if len(writers) == 1}


def _terms(loops: Sequence[For]) -> tuple[Term, ...]:
    return tuple([Term(name=n.name, size=size_of(n)) for n in loops])


def _pairs(
    leaf: Reduce, reads: set[tuple[Expr, ...]], own: set[str], around: set[str]
) -> dict[str, str] | None:
    """For each loop of the consumer (the nest that reads the sum), the sum's loop along the same dimension. None if the
    indices `reads` of the consumer do not match those that `leaf` writes. `own`, `around`: loops of sum and consumer.
    """
    if not all(isinstance(i, Var | Const) for i in leaf.indices):
        return None
    pairs: dict[str, str] = {}
    for d, index in enumerate(leaf.indices):
        theirs = {indices[d] for indices in reads}
        variables = {i.name for i in theirs if isinstance(i, Var)}
        if not all(isinstance(i, Var | Const) for i in theirs) or len(variables) > 1:
            return None
        if not variables:
            continue
        (name,) = variables
        if len(theirs) > 1 or not isinstance(index, Var) or index.name not in own or name not in around:
            return None
        if name in pairs or index.name in pairs.values():
            return None
        pairs[name] = index.name
    return pairs


def padded_read(program: Program, summed: Sum) -> tuple[Read, Copy] | None:
    """The read, by a windowed sum, of a buffer that a copy has padded; and this copy. None if there are no pads."""
    copies = [s for s in walk(program) if isinstance(s, Copy) and s.name in summed.producers]
    pairs = [(r, s) for r in summed.reads for s in copies if r.buffer == s.destination.buffer.name]
    return next(iter(pairs), None)


def dot_loop(target: CpuTarget, summed: Sum, lane: Axle) -> str:
    """The reduction loop for a dot product instruction, which adds the products of `DOT_DEPTH` iterations of this loop
    for all iterations of `lane` at once; "" if the instruction does not fit the sum. One factor must be uint8 data,
    equal for all lanes, the other factor int8 weights; both must be contiguous along the reduction loop.
    """
    long = [term for term in summed.terms if term.size > 1]
    if not target.dot_product or not long or lane.size > min(DOT_LANES, lanes_of(target, summed.bits)):
        return ""
    if sorted(read.dtype.value for read in summed.reads) != sorted((DType.UINT8.value, DType.INT8.value)):
        return ""
    name, whole = long[-1].name, long[-1].size % DOT_DEPTH == 0
    fits = [
        read.stride(name) == 1 and (lane.inner in read.loops()) == (read.dtype is DType.INT8)
        for read in summed.reads
    ]
    return name if whole and all(fits) else ""
