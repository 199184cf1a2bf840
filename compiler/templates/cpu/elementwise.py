"""Element-wise operators on a CPU: vectors of one dimension, unrolled rows of another, chunks in parallel."""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import Program
from ...schedule import Schedule
from .loops import parallel_grains, peel_ragged, vector_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The loops over the dimensions of the result.

    Vectors run `along` a dimension, `width` of its elements in a step, with `unroll` steps unrolled. Around them `rows`
    of the other one of the last two dimensions are unrolled. `block`: elements, a multiple of a step's, that are
    computed for all rows before the next ones (None: all). `outer`: index, among the other dimensions, of the outermost
    loop. `level`: the loop over blocks is around 1 + `level` of these loops.
    """

    width: int
    unroll: int = 1
    rows: int = 1
    along: int
    block: int | None = None
    level: int = 0
    outer: int = 0


def choose_knobs(target: CpuTarget, program: Program) -> Knobs:
    """Default knobs for any shape."""
    shape = program.parameters[-1].shape
    return Knobs(width=vector_width(target, shape[-1]), along=len(shape) - 1)


def schedule(
    target: CpuTarget, program: Program, knobs: Knobs | None = None, *, parallel: bool = False
) -> Schedule:
    """`te.ops.float_elementwise` for any shape (`knobs`: default `choose_knobs`).

    `parallel`: chunks run on the threads of the kernel's pool.
    """
    shape = program.parameters[-1].shape
    if knobs is None:
        knobs = choose_knobs(target, program)
    s = Schedule(program)
    size = shape[knobs.along]
    step = knobs.width * knobs.unroll
    outside = [(f"d{d}", n) for d, n in enumerate(shape) if d != knobs.along]
    written: list[str] = []
    if knobs.rows > 1:
        # The nearest other dimension: elements that do not vary along it are read once.
        loop, n = outside.pop()
        tiles, row = s.split(loop, knobs.rows)
        outside.append((tiles, n // knobs.rows))
        written.append(row)
    if outside:
        outside.insert(0, outside.pop(knobs.outer))
    loop, n = f"d{knobs.along}", size
    if knobs.block is not None:
        blocks, loop = s.split(loop, knobs.block)
        outside.insert(len(outside) - 1 - knobs.level, (blocks, size // knobs.block))
        n = knobs.block
    steps, vector = s.split(loop, step)
    if knobs.unroll > 1:
        one, vector = s.split(vector, knobs.width)
        written.append(one)
    order = [*(name for name, _ in outside), steps, *written, vector]
    s.reorder(*order)
    for name in written:
        s.unroll(name)
    s.vectorize(vector)
    peel_ragged(s, *order[:-1])
    if parallel:
        # A single step leaves no loop around it.
        around, work = ([*outside, (steps, n // step)], step) if n // step > 1 else (outside, n)
        parallel_grains(s, [(name, max(1, count)) for name, count in around], work * knobs.rows)
    return s
