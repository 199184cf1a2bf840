"""pad: rounds a loop of a sum up to a multiple of a tile. The copies that fill the sum's operands put zeros into the
new elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ir.affine import linear_form
from ..ir.bounds import interval, loop_range, loop_ranges
from ..ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Var
from ..ir.replace_buffers import replace_buffers
from ..ir.stmt import Copy, For, Program, Reduce, Region, Stmt
from ..ir.visit import children, free_vars, loads_in, map_stmt, substitute_expr
from .errors import LegalityError
from .legality import check_bounds, touches
from .tree import locate_alloc, locate_loop, loops_around

_ONE = Const(1)


def pad(program: Program, loop: str, multiple: int) -> Program:
    """Rounds the extent of a sum's loop up to a multiple, so that tiles of it are whole.

    rewrite (pad("k", 8)):
        alloc a: [4, 6]                                 alloc a: [4, 8]
        a: copy a[0:4, 0:6] = A[0:4, 0:6]               a: copy a[0:4, 0:8] = A[0:4, 0:8] pad 0
        for i in range(4):                       ->     for i in range(4):
            for k in range(6):                              for k in range(8):
                C[i] += a[i, k] * b[k] first k == 0             C[i] += a[i, k] * b[k] first k == 0
    Every buffer that has the loop's variable as an index grows. Copies that fill operands put zeros into the new
    elements; new elements of the sum's buffer are never read. Does nothing if the extent is a multiple.

    Legal for a nest of loops around one Reduce that adds. The loop's variable may occur only as a whole index of
    allocated buffers, and each operand must be filled by one copy, which may be inside loops. If the loop is a
    reduction loop (k above), new terms must be zero: the Reduce must add a product, and the copies of its factors must
    read new elements outside of the source, as zeros (for integers, one zero factor suffices). If the loop is not a
    reduction loop, an operand's index may also be a multiple of the variable plus other variables, as in a window.
    Raises LegalityError for a multiple below 1.
    """
    _, at = locate_loop(program, loop)
    where = f"cannot pad {loop}: "
    if multiple < 1:
        raise LegalityError(f"{where}the multiple is {multiple}, and must be 1 or more", program, loop)
    if not isinstance(at.extent, Const):
        raise LegalityError(f"{where}its extent is not constant", program, loop)
    old = int(at.extent.value)
    new = -(-old // multiple) * multiple
    if new == old:
        return program
    reduce = _sum(at)
    if reduce is None:
        raise LegalityError(f"{where}it is not a nest of loops around one sum", program, loop)
    data = any(loop in free_vars(i) for i in reduce.indices)
    padded = list(_padded(reduce, loop, steps=data))
    if any(buffer is None for buffer, _, _ in padded):
        reason = f"{where}{reduce.name} uses {loop} other than as an index"
        raise LegalityError(reason, program, reduce.name)
    multiplied = factors(reduce.value)
    if not data and not all(
        isinstance(f, Load) and any(i == at.var for i in f.indices) for f in multiplied or [Const(0)]
    ):
        reason = f"{where}{reduce.name} does not sum a product of operands that are all indexed by {loop}"
        raise LegalityError(reason, program, reduce.name)
    grown: dict[str, Buffer] = {}
    extents, copies = {loop: Const(new)}, dict[str, Copy]()
    zeros = 0
    for buffer, d, step in padded:
        assert buffer is not None
        if locate_alloc(program, buffer.name) is None or (step == 0 and buffer.shape[d] != old):
            reason = f"{where}{buffer.name} is a parameter, or its dimension {d} is not {old}"
            raise LegalityError(reason, program, reduce.name)
        before = buffer.shape[d]
        after = before + max(step, 1) * (new - old)
        shape = tuple([after if e == d else size for e, size in enumerate(buffer.shape)])
        if grown.setdefault(buffer.name, replace(buffer, shape=shape)).shape != shape:
            raise LegalityError(
                f"{where}two indices of {buffer.name} use {loop}, but only one may", program, reduce.name
            )
        if buffer.name != reduce.buffer.name:
            copy, around, zero = _filling(program, buffer, d, before, after, where=where)
            # A float that is not zero may be infinite or NaN, and its product with zero NaN.
            if not data and not zero and reduce.buffer.dtype.is_float:
                reason = f"{where}{copy.name} does not provably put zeros beyond the end of {buffer.name}"
                raise LegalityError(reason, program, copy.name)
            zeros += zero
            copies[copy.name] = copy
            extents |= dict.fromkeys(around, Const(after))
    if not data and not zeros:
        reason = f"{where}no copy provably puts zeros beyond the end of an operand of {reduce.name}"
        raise LegalityError(reason, program, reduce.name)

    def rewrite(statement: Stmt) -> Stmt:
        match statement:
            case For(var=var, body=body, kind=kind) if var.name in extents:
                return For(var=var, extent=extents[var.name], body=body, kind=kind)
            case Copy(name=name) if name in copies:
                return copies[name]
        return statement

    result = replace(program, body=replace_buffers(map_stmt(program.body, rewrite), grown))
    return check_bounds(result, program, loop)


def _sum(loop: For) -> Reduce | None:
    node: Stmt = loop
    while isinstance(node, For):
        node = node.body
    return node if isinstance(node, Reduce) and node.op == "add" else None


def _padded(reduce: Reduce, loop: str, *, steps: bool) -> Iterator[tuple[Buffer | None, int, int]]:
    """Yields (buffer, dimension, step) for each index of the sum's accesses in which the variable of `loop` occurs. The
    step is 0 if the index is the variable alone. If `steps` is set, an index of an operand may also contain the
    variable as a term with a positive coefficient; the step is this coefficient. For every other index, the buffer is
    None.
    """
    accesses = [(reduce.buffer, reduce.indices), *[(e.buffer, e.indices) for e in loads_in(reduce.value)]]
    for number, (buffer, indices) in enumerate(accesses):
        uses = [d for d, index in enumerate(indices) if loop in free_vars(index)]
        for d in uses:
            whole = isinstance(indices[d], Var)
            step = 0 if whole or not steps or number == 0 else _step(indices[d], loop)
            yield (buffer if len(uses) == 1 and (whole or step > 0) else None), d, step
    if _outside_loads(reduce.value, loop):
        yield None, 0, 0


def _step(index: Expr, loop: str) -> int:
    """The coefficient of a loop's variable in an index; 0 unless the variable occurs exactly once, as a term of the
    linear form.
    """
    form = linear_form(index)
    if any(loop in free_vars(atom) for atom in form.terms if atom != Var(loop)):
        return 0
    return form.terms.get(Var(loop), 0)


def _outside_loads(value: Expr, loop: str) -> bool:
    """Whether a value may use a loop's variable outside of the indices of loads. A load inside a selection or a call
    counts as such a use if its indices contain the variable; roundings to tf32 are excepted.
    """
    match value:
        case Load():
            return False
        case Binary(a=a, b=b):
            return _outside_loads(a, loop) or _outside_loads(b, loop)
        case Cast(value=inner) | Call(function="round_tf32", arguments=(inner,)):
            return _outside_loads(inner, loop)
    return loop in free_vars(value)


def factors(value: Expr) -> list[Expr]:
    """The factors of a product, without the conversions and roundings around them, which map zero to zero."""
    match value:
        case Binary(op="*", a=a, b=b):
            return [*factors(a), *factors(b)]
        case Cast(value=inner) | Call(function="round_tf32", arguments=(inner,)):
            return factors(inner)
    return [value]


def _filling(
    program: Program, buffer: Buffer, d: int, old: int, new: int, *, where: str
) -> tuple[Copy, list[str], bool]:
    """For a buffer that grows from `old` to `new` elements in dimension `d`, returns the enlarged copy that fills it,
    the names of the loops that grow with the copy, and whether the new elements are provably zeros. Raises
    LegalityError, whose text begins with `where`, if no single copy fills the buffer.
    """
    allocation = locate_alloc(program, buffer.name)
    assert allocation is not None
    uses = touches(children(allocation[-1])[0], buffer.name)[buffer.name]
    writers = [use.by for use in uses if use.write]
    copy = writers[0] if len(writers) == 1 else None
    if not isinstance(copy, Copy) or copy.asynchronous:
        raise LegalityError(f"{where}{buffer.name} is not filled by one plain copy", program, buffer.name)
    around = loops_around(program.body, copy)
    to, of = copy.destination, copy.source
    growing: list[str] = []
    value = copy.pad
    if value is None:
        value = Const(0.0 if of.buffer.dtype.is_float else 0, of.buffer.dtype)
    beyond = dict(enumerate(of.starts))
    ranges = loop_ranges(around)
    own = next((n for n in around if n.var == to.starts[d]), None)
    if own is not None and own.extent == Const(old) and to.extents[d] == _ONE:
        growing.append(own.name)
        # The positions from the old end on.
        beyond = {e: substitute_expr(s, {own.name: own.var + old}) for e, s in beyond.items()}
        ranges[own.name] = loop_range(Const(new - old))
    elif to.starts[d] == Const(0) and to.extents[d] == Const(old) and (e := partner(copy, d)) is not None:
        beyond = {e: of.starts[e] + old}
        to = Region(buffer=to.buffer, starts=to.starts, extents=_grown(to.extents, d, new))
        of = Region(buffer=of.buffer, starts=of.starts, extents=_grown(of.extents, e, new))
    else:
        reason = f"{where}{copy.name} must fill dimension {d} of {buffer.name} from 0 to its end, in order"
        raise LegalityError(reason, program, copy.name)
    lows = {e: interval(start, ranges).low for e, start in beyond.items()}
    outside = any(low is not None and low >= of.buffer.shape[e] for e, low in lows.items())
    return replace(copy, destination=to, source=of, pad=value), growing, value.value == 0 and outside


def partner(copy: Copy, d: int) -> int | None:
    """The dimension of a copy's source that corresponds to dimension `d` of its destination; None if it is ambiguous or
    does not exist.
    """
    to, of = copy.destination.extents, copy.source.extents
    if to[d] == _ONE:
        return d if len(to) == len(of) and of[d] == _ONE else None
    position = sum(e != _ONE for e in to[:d])
    return [e for e, extent in enumerate(of) if extent != _ONE][position]


def _grown(extents: tuple[Expr, ...], d: int, size: int) -> tuple[Expr, ...]:
    return tuple([Const(size) if e == d else extent for e, extent in enumerate(extents)])
