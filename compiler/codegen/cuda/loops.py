"""Emits loops: loops of one thread, or loops that all threads run together, with counters, unrolled iterations
and guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...ir.affine import linear_form
from ...ir.bounds import Interval, interval, loop_range
from ...ir.expr import Buffer, Expr, Var
from ...ir.grid import owners
from ...ir.printer import summarize
from ...ir.simplify import simplify
from ...ir.stmt import Assign, Copy, For, Intrinsic, Node, Reduce, Stmt
from ...ir.types import DType
from ...ir.visit import expressions, free_vars, loads_in, walk
from .errors import LoweringError
from .indices import index, positive
from .text import SUM, Text, conjunction

if TYPE_CHECKING:
    from .statements import KernelEmitter

MOST_UNROLLED, MOST_REGISTERS = 1024, 64
"""Largest numbers of iterations of unrolled loops. MOST_UNROLLED is the limit for a loop annotated "unroll".
MOST_REGISTERS is the limit for a loop whose variable indexes an array of registers; if such a loop is not unrolled, the
array is in local memory.
"""
Inside = Callable[[Stmt], None]
"""An emitter of a loop's body, at block level or at the level of one thread."""
_UNROLLED = ("unroll", "vectorize", "virtual_thread")
_THREAD = ("block", "thread")


def emit_loop(kernel: KernelEmitter, loop: For, inside: Inside) -> None:
    """Emits a loop that one thread runs, or that all threads run together. `inside`: emitter of the loop's body. Raises
    LoweringError for a loop over blocks.
    """
    values = kernel.values
    if loop.kind.startswith("block."):
        raise LoweringError(f"`{summarize(loop)}`: loops over blocks must be the outermost ones of a kernel")
    extent = simplify(loop.extent, values.ranges)
    bound = interval(extent, values.ranges).high
    if bound is not None and bound <= 0:
        return
    with kernel.scope():
        if bound == 1:
            values.variables[loop.name] = "0"
            emit_where(kernel, below(kernel, loop.name, extent, 1), loop.body, inside)
        else:
            _repeated(kernel, loop, extent, bound, inside)


def _repeated(kernel: KernelEmitter, loop: For, extent: Expr, bound: int | None, inside: Inside) -> None:
    """Emits `loop` as a loop with a counter. The compiler unrolls a loop of few iterations if the loop's kind asks for
    it, or if the loop's variable indexes registers. `extent`: the number of iterations. `bound`: the largest possible
    number of iterations (None: unknown). `inside`: emitter of the loop's body.
    """
    values = kernel.values
    most = MOST_UNROLLED if loop.kind in _UNROLLED else 0
    if _indexes_registers(loop):
        most = max(most, MOST_REGISTERS)
    name = kernel.names.make(loop.name)
    if bound is not None and bound <= most:
        values.variables[loop.name] = name
        conditions = below(kernel, loop.name, extent, bound)
        kernel.unroll()
        with kernel.source.block(values.dialect.counted(DType.INT32, name, str(bound))):
            emit_where(kernel, conditions, loop.body, inside)
        return
    end = index(values, linear_form(extent))
    counter = DType.INT64 if end.wide else DType.INT32
    values.variables[loop.name] = name
    values.ranges[loop.name] = loop_range(extent)
    with kernel.source.block(values.dialect.counted(counter, name, end.text.within(SUM))):
        inside(loop.body)


def emit_where(kernel: KernelEmitter, conditions: Sequence[Text], body: Stmt, inside: Inside) -> None:
    """Emits `body` by the emitter `inside`, under the condition that all `conditions` are true."""
    if not conditions:
        inside(body)
        return
    with kernel.source.block(f"if ({conjunction(conditions)})"):
        inside(body)


def below(kernel: KernelEmitter, name: str, extent: Expr, bound: int) -> list[Text]:
    """Texts of the conditions under which the loop variable `name` is less than `extent`. The variable is always less
    than `bound`. The list is empty if the condition is provable.

    For the code inside these conditions, the variable's range is set to values below `extent`.
    """
    values = kernel.values
    values.ranges[name] = Interval(0, bound - 1)
    conditions = positive(values, linear_form(extent).plus(linear_form(Var(name)), -1))
    values.ranges[name] = loop_range(extent)
    return conditions


def _indexes_registers(loop: For) -> bool:
    """Whether a loop's variable occurs in an index of an array of registers."""
    return any(
        owners(buffer.scope) == _THREAD and loop.name in names
        for statement in walk(loop.body)
        for buffer, names in _indexed(statement)
    )


def _indexed(statement: Node) -> Iterator[tuple[Buffer, set[str]]]:
    """The buffers that a statement reads or writes, each with the variables in its indices. Statements nested in this
    statement do not count.
    """
    match statement:
        case Assign(buffer=buffer, indices=indices) | Reduce(buffer=buffer, indices=indices):
            yield buffer, {name for at in indices for name in free_vars(at)}
        case Copy(destination=destination, source=source):
            for region in (destination, source):
                yield region.buffer, {name for at in region.starts for name in free_vars(at)}
        case Intrinsic(operands=operands):
            for region in operands:
                yield region.buffer, {name for at in region.starts for name in free_vars(at)}
    for expr in expressions(statement):
        for load in loads_in(expr):
            yield load.buffer, {name for at in load.indices for name in free_vars(at)}
