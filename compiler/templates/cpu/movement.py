"""Data movement on a CPU: vectors along the output's last dimension. Permutations that change this dimension, and
changes of layout, use square tiles, which code generation transposes in registers.
"""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.expr import Const, Load
from ...ir.stmt import Assign, For, Program, Seq, Stmt
from ...ir.types import DType
from ...ir.visit import walk_expr
from ...schedule import Schedule
from .loops import parallel_grains, peel_ragged, vector_width, vectorize_loop

LEAST_BLOCK = 4
"""Least number of channels in a block for which square tiles are used; smaller blocks are loaded with strides."""


def schedule(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.movement.remap`, `concat` and `gather`, for any shape.

    `parallel`: each outermost loop runs on the threads of the kernel's pool, where there is enough work.
    """
    s = Schedule(program)
    top = program.body.statements if isinstance(program.body, Seq) else (program.body,)
    for nested in top:
        if parallel:
            _parallel(s, nested)
        for loop in _innermost(nested):
            assert isinstance(loop.extent, Const)
            vectorize_loop(s, target, loop.name, int(loop.extent.value))
    return s


def schedule_permutation(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.movement.permute` for any shape. `parallel` as in `schedule`."""
    body = program.body
    chain: list[For] = []
    while isinstance(body, For):
        chain.append(body)
        body = body.body
    assert isinstance(body, Assign)
    shape = program.parameters[-1].shape
    s = Schedule(program)
    loops = [(loop.name, size) for loop, size in zip(chain, shape, strict=True)]
    last, size = loops[-1]
    # Fused operators may read other tensors in the output's order.
    source = min([d for d, loop in enumerate(chain) if _reads_last(body, loop)], default=len(chain) - 1)
    if source == len(chain) - 1:
        outer = vectorize_loop(s, target, last, size)
        width = vector_width(target, size)
        tiles = size // width
        around, work = ([*loops[:-1], (outer, tiles)], width) if tiles > 1 else (loops[:-1], size)
        if parallel and around:
            parallel_grains(s, around, work)
        return s
    lanes = target.lanes(DType.FLOAT32)
    rows, row = s.split(loops[source][0], lanes)
    columns, column = s.split(last, lanes)
    s.reorder(rows, columns, row, column)
    s.vectorize(column)
    if parallel:
        between = [(name, n) for d, (name, n) in enumerate(loops[:-1]) if d != source]
        order = [*between[:source], (rows, -(-shape[source] // lanes)), *between[source:]]
        parallel_grains(s, [(n, k) for n, k in order if k > 1], lanes * size)
    peel_ragged(s, columns)
    return s


def schedule_relayout(target: CpuTarget, program: Program, *, parallel: bool = False) -> Schedule:
    """Schedules `te.ops.relayout` for any shape. `parallel`: chunks run on the threads of the kernel's pool."""
    x, y = (b.shape for b in program.parameters)
    s = Schedule(program)
    block = (x if len(x) == 4 else y)[-1]
    tiles = program.parameters[0].dtype is DType.FLOAT32
    if len(x) == len(y) or not tiles or not LEAST_BLOCK <= block <= target.lanes(DType.FLOAT32):
        return _in_rows(s, target, y, parallel=parallel)
    side = 1 << (block - 1).bit_length()
    outer, inner = s.split("p", side)
    if len(y) == 4:
        blocks, rows, columns = "o", inner, "j"
        s.reorder("n", blocks, outer, rows, columns)
    else:
        blocks, rows = s.split("o", block)
        columns = inner
        s.reorder("n", blocks, outer, rows, columns)
    s.unroll(rows)
    s.vectorize(columns)
    if parallel:
        count, plane = (y[1], y[2]) if len(y) == 4 else (x[1], x[2])
        around = [("n", y[0]), (blocks, count), (outer, -(-plane // side))]
        parallel_grains(s, around, side * block)
    for loop in (blocks, outer):
        peel_ragged(s, loop)
    return s


def _in_rows(s: Schedule, target: CpuTarget, shape: tuple[int, ...], *, parallel: bool) -> Schedule:
    """The schedule in vectors of contiguous elements of the result; `shape`: extents of its loops."""
    loops = list(zip(("n", "o", "p", "j"), shape, strict=False))
    name, size = loops[-1]
    if len(shape) == 4:
        s.vectorize(name)
    else:
        vectorize_loop(s, target, name, size, 1)
    if parallel:
        parallel_grains(s, loops[:-1], size)
    return s


def _reads_last(move: Assign, loop: For) -> bool:
    """Whether a loop's variable is the last index of a load in `move`."""
    return any(isinstance(e, Load) and e.indices[-1] == loop.var for e in walk_expr(move.value))


def _innermost(statement: Stmt) -> list[For]:
    match statement:
        case Seq(statements=statements):
            return [loop for inner in statements for loop in _innermost(inner)]
        case For(body=body):
            return _innermost(body) or [statement]
    return []


def _elements(statement: Stmt) -> int:
    match statement:
        case Seq(statements=statements):
            return sum(map(_elements, statements))
        case For(extent=Const(value=count), body=body):
            return int(count) * _elements(body)
    return 1


def _parallel(s: Schedule, nested: Stmt) -> None:
    """Makes the outermost loop parallel in chunks, unless it is the vectorized loop."""
    if isinstance(nested, For) and not isinstance(nested.body, Assign):
        assert isinstance(nested.extent, Const)
        size = int(nested.extent.value)
        parallel_grains(s, [(nested.name, size)], _elements(nested.body))
