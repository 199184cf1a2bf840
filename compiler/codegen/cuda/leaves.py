"""Emits the statements of one thread that contain no other statements, such as assignments and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.affine import linear_form
from ...ir.expr import Binary, Buffer, Const, Expr, Var
from ...ir.expression_printer import format_expr
from ...ir.simplify import simplify
from ...ir.stmt import Assign, Copy, Intrinsic, Reduce
from ...ir.types import DType
from ...ir.visit import free_vars, loads_in, walk_expr
from .accumulate import neutral
from .copies import emit_copy
from .indices import Index, index
from .intrinsics import emission_of
from .text import SUM, UNARY, Text, call

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter
    from .statements import KernelEmitter

Leaf = Assign | Reduce | Copy | Intrinsic

SHORT = 12
"""Quotients and remainders whose text has at most this many characters are written out at every use. Longer ones get a
variable.
"""


def emit_leaf(kernel: KernelEmitter, statement: Leaf) -> None:
    """Emits one statement. Before it, declares variables for quotients and remainders that the statement repeats."""
    values, source = kernel.values, kernel.source
    names, before, lines = kernel.names.copy(), source.lines[-1:], len(source.lines)
    values.divisions.clear()
    _emit(kernel, statement)
    repeated = _repeated_divisions(values)
    if not repeated:
        return
    # Emit the statement again, now that the repeated divisions are known.
    source.lines[max(0, lines - 1) :] = before
    kernel.names = names
    for division in repeated:
        held = index(values, linear_form(division))
        name = kernel.names.make("quotient" if division.op == "//" else "rest")
        kind = DType.INT64 if held.wide else DType.INT32
        source.line(values.dialect.defined(kind, name, held.text.text))
        values.named[division] = Index(Text(name), held.wide)
    _emit(kernel, statement)
    values.named.clear()


def _repeated_divisions(values: ExpressionEmitter) -> list[Binary]:
    """The quotients and remainders that were emitted several times and have a text of more than SHORT characters. Inner
    divisions come before the divisions that contain them. Divisions that read memory, or that cannot be computed before
    the statement, are left out.
    """
    counts = dict(values.divisions)
    chosen: list[Binary] = []
    for division in sorted(counts, key=lambda e: -len(format_expr(e))):
        known = free_vars(division) <= values.variables.keys() and not loads_in(division)
        if counts[division] < 2 or not known:
            continue
        if len(index(values, linear_form(division)).text.text) <= SHORT:
            continue
        chosen.append(division)
        # Divisions inside it are now written once.
        for inner in walk_expr(division):
            if isinstance(inner, Binary) and inner in counts and inner != division:
                counts[inner] -= counts[division] - 1
    return chosen[::-1]


def _emit(kernel: KernelEmitter, statement: Leaf) -> None:
    """Emits a statement, without variables for its divisions."""
    match statement:
        case Assign(buffer=buffer, indices=indices, value=value):
            at = kernel.values.at(buffer, indices)
            _assign(kernel, buffer, at, kernel.values.value(value))
        case Reduce():
            _reduce(kernel, statement)
        case Copy():
            emit_copy(kernel, statement)
        case Intrinsic():
            emission_of(statement.declaration)(kernel, statement)


def _assign(kernel: KernelEmitter, buffer: Buffer, at: str, value: Text) -> None:
    """Assigns a new value to the element at the offset `at`. If the line before declares the buffer as a scalar, the
    value becomes the initializer of this declaration.
    """
    lines, values = kernel.source.lines, kernel.values
    storage = values.storages[buffer.name]
    if storage.scalar and lines and lines[-1].strip() == values.dialect.declared(buffer.dtype, storage.name):
        lines[-1] = f"{lines[-1].removesuffix(';')} = {value.text};"
    else:
        kernel.source.line(values.dialect.stored(storage, at, value))


def _reduce(kernel: KernelEmitter, reduce: Reduce) -> None:
    """Emits the update of a sum or maximum by one more value, or its initialization."""
    values, ranges = kernel.values, kernel.values.ranges
    storage, at = values.storages[reduce.buffer.name], values.at(reduce.buffer, reduce.indices)
    held = values.dialect.element(storage, at)
    value = simplify(reduce.value, ranges)
    first = None if reduce.first is None else simplify(reduce.first, ranges)
    if isinstance(first, Const) and first.value:
        _assign(kernel, reduce.buffer, at, values.emit(value))
        return
    if first is not None and not isinstance(first, Const):
        # At the beginning of a sum there is no value to read.
        start = values.emit(neutral(reduce.op, reduce.buffer.dtype))
        held = values.dialect.chosen(values.emit(first), start, held)
    combined = _combined(values, reduce, held, value)
    kernel.source.line(values.dialect.stored(storage, at, combined))


def _combined(values: ExpressionEmitter, reduce: Reduce, held: Text, value: Expr) -> Text:
    """The sum, or the maximum, of `held` (the accumulator's present value) and one more value."""
    dtype = reduce.buffer.dtype
    if reduce.op == "add" and dtype is DType.FLOAT32:
        match value:
            case Binary(op="*", a=a, b=b):
                return call(values.dialect.fused, values.emit(a), values.emit(b), held)
        return values.dialect.operated("+", SUM, held, values.emit(value))
    # A variable replaces the accumulator's element.
    total = Var("total'", dtype)
    values.variables[total.name] = held.within(UNARY)
    result = values.emit(Binary("+" if reduce.op == "add" else "max", total, value))
    del values.variables[total.name]
    return result
